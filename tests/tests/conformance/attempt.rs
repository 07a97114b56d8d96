use std::time::Duration;

use workflow_engine::model::{NewRun, Retention, WorkerId};
use workflow_engine::store::{Outcome, RunEnd};
use workflow_sdk::{AttemptStatus, ErrorKind, StepAttempt, StepKind, StoredError};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    CLOCK_START, LEASE, attempt, begun, claim_by, end, error, failed, lane, new_run, start, succeed, succeeded,
};
use workflow_tests::outcome::{applied, created};

/// JSON texts that a database might normalize if it stored them as JSON.
const PAYLOADS: &[&str] = &[
    "null",
    r#""""#,
    r#""it's a \"quote\" and a \\ backslash \\\\ \/ \n\t""#,
    r#""\u0000 and \u001f""#,
    r#""a zero width \u200b, a pair \ud83d\ude00, an 😀 and 漢字 é é""#,
    "1.0e-7",
    "-0.0",
    "1.10",
    "0.1000000000000000055511151231257827",
    "123456789012345678901234567890",
    "-9223372036854775809",
    "18446744073709551615",
    "1e400",
    r#"{"z":1,"a":2,"m":{"b":[],"a":{}}}"#,
    r#"{"a":1,"a":2}"#,
    " { \"a\" : [ 1 , 2 ] } ",
    r#"{"":"","$1":"{}","%s":"?","NULL":"null"}"#,
    r#"["{\"nested\":\"\\u0000\"}"]"#,
];

fn stored(row: StepAttempt, epoch: i64) -> StepAttempt {
    StepAttempt { epoch, ..row }
}

/// Batches that contain rows of first claims only are common, so a store may have a fast path for
/// them.
pub async fn a_row_of_any_claim_has_the_epoch_of_its_claim(fixture: Fixture) {
    let worker = WorkerId::generate();
    let _session = fixture.store.open_lease(worker, &[lane()], &Retention::default()).await.unwrap();
    let again = fixture.started_many(2).await;
    fixture.claim(&claim_by(worker, 2)).await;
    fixture.advance(2 * LEASE);
    let later = fixture.claim(&claim_by(worker, 2)).await.runs;
    fixture.started().await;
    let first = fixture.claim(&claim_by(worker, 1)).await.runs[0].claim;
    assert_eq!((later[0].claim.epoch, later[1].claim.epoch, first.epoch), (2, 2, 1));
    assert!(again.contains(&later[0].claim.run_id));
    let row = |key: &str, position| succeeded(key, position, "1");
    for (key, position, claims) in
        [("later", 0, vec![later[0].claim, later[1].claim]), ("all", 1, vec![first, later[0].claim, later[1].claim])]
    {
        let writes: Vec<_> = claims.iter().map(|claim| attempt(*claim, row(key, position))).collect();
        applied_all(&fixture.commit(&writes).await);
        for claim in claims {
            let history = fixture.history(claim.run_id).await;
            assert_eq!(history.last(), Some(&stored(row(key, position), claim.epoch)));
        }
    }
}

/// Most batches contain only quick successes of first attempts and successful ends, so a store may
/// have a fast path for them. Each other kind of row beside them must be stored correctly, too.
pub async fn a_row_is_stored_unchanged_beside_any_other_row(fixture: Fixture) {
    let changes: [fn(&mut StepAttempt); 6] = [
        |_| {},
        |row| row.attempt = 2,
        |row| row.kind = StepKind::Sleep,
        |row| row.status = AttemptStatus::Failed,
        |row| row.error = Some(error("too late")),
        |row| row.completed_at = Some(CLOCK_START + Duration::from_secs(1)),
    ];
    let worker = WorkerId::generate();
    let _session = fixture.store.open_lease(worker, &[lane()], &Retention::default()).await.unwrap();
    for change in changes {
        fixture.started_many(2).await;
        let claimed = fixture.claim(&claim_by(worker, 2)).await.runs;
        let claims = [claimed[0].claim, claimed[1].claim];
        let mut rows = [stored(succeeded("a", 0, "1"), 1), stored(succeeded("b", 1, "2"), 1)];
        change(&mut rows[1]);
        if rows[1].completed_at != rows[0].completed_at {
            // A slow step writes a row when it starts.
            applied(&fixture.write(attempt(claims[0], begun("b"))).await);
        }
        let writes = rows.each_ref().map(|row| attempt(claims[0], row.clone()));
        applied_all(&fixture.commit(&writes).await);
        let mut history = fixture.history(claims[0].run_id).await;
        history.sort_by(|a, b| a.step_key.cmp(&b.step_key));
        assert_eq!(history, rows);

        let other =
            if rows[1].error.is_some() { RunEnd::Failed(error("no luck")) } else { RunEnd::Succeeded("4".into()) };
        applied_all(&fixture.commit(&[succeed(claims[0], "3"), end(claims[1], other)]).await);
        let ended = [fixture.run(claims[0].run_id).await, fixture.run(claims[1].run_id).await];
        let failed = rows[1].error.is_some();
        assert_eq!(ended.each_ref().map(|run| run.output.as_deref()), [Some("3"), (!failed).then_some("4")]);
        assert_eq!(ended.map(|run| run.error), [None, failed.then(|| error("no luck"))]);
    }
}

fn applied_all(outcomes: &[Outcome]) {
    outcomes.iter().for_each(applied);
}

pub async fn an_attempt_that_ends_keeps_its_row(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(attempt(claim, begun("charge"))).await);
    assert_eq!(fixture.history(claim.run_id).await, [stored(begun("charge"), 1)]);

    let done = succeeded("charge", 0, r#"{"paid":true}"#);
    applied(&fixture.write(attempt(claim, done.clone())).await);
    assert_eq!(fixture.history(claim.run_id).await, [stored(done, 1)], "one row");
}

pub async fn the_start_and_the_end_of_an_attempt_in_one_batch_are_one_row(fixture: Fixture) {
    let claim = fixture.held().await;
    let first = succeeded("charge", 0, "1");
    let second = failed("ship", 1);
    let outcomes = fixture
        .commit(&[
            attempt(claim, begun("charge")),
            attempt(claim, begun("ship")),
            attempt(claim, first.clone()),
            attempt(claim, second.clone()),
        ])
        .await;
    outcomes.iter().for_each(applied);
    assert_eq!(fixture.history(claim.run_id).await, [stored(first, 1), stored(second, 1)]);
}

pub async fn a_final_row_is_not_changed(fixture: Fixture) {
    let claim = fixture.held().await;
    let done = succeeded("charge", 0, "1");
    applied(&fixture.write(attempt(claim, done.clone())).await);
    let other = StepAttempt { completed_at: Some(CLOCK_START + Duration::from_secs(9)), ..succeeded("charge", 5, "9") };
    let refused = StepAttempt { error: Some(error("late")), position: Some(6), ..failed("charge", 1) };
    for late in [done.clone(), begun("charge"), other.clone(), refused] {
        fixture.write(attempt(claim, late)).await;
        assert_eq!(fixture.history(claim.run_id).await, [stored(done.clone(), 1)]);
    }
    // A later claim does not change it either.
    fixture.advance(workflow_tests::builders::LEASE);
    let later = fixture.claim_only().await.claim;
    fixture.write(attempt(later, other)).await;
    assert_eq!(fixture.history(claim.run_id).await, [stored(done, 1)]);
}

/// The first row stays because its writer may deliver the outcome after the commit, and every
/// replay must see the same outcome.
pub async fn the_first_of_two_final_rows_in_one_batch_stays(fixture: Fixture) {
    let claim = fixture.held().await;
    let first = succeeded("charge", 0, "1");
    fixture
        .commit(&[
            attempt(claim, first.clone()),
            attempt(claim, succeeded("charge", 1, "2")),
            attempt(claim, begun("charge")),
        ])
        .await;
    assert_eq!(fixture.history(claim.run_id).await, [stored(first, 1)]);
}

pub async fn a_failed_attempt_before_a_retry_has_no_position(fixture: Fixture) {
    let claim = fixture.held().await;
    let second = StepAttempt { attempt: 2, ..succeeded("charge", 0, "1") };
    applied(&fixture.write(attempt(claim, failed("charge", 1))).await);
    applied(&fixture.write(attempt(claim, StepAttempt { attempt: 2, ..begun("charge") })).await);
    applied(&fixture.write(attempt(claim, second.clone())).await);
    let expected = [stored(second, 1), stored(failed("charge", 1), 1)];
    assert_eq!(fixture.history(claim.run_id).await, expected, "rows with a position come first");
}

pub async fn a_step_may_fail_for_good(fixture: Fixture) {
    let claim = fixture.held().await;
    let lost_for_good =
        StepAttempt { position: Some(0), error: Some(error("sold out").fatal()), ..failed("charge", 3) };
    applied(&fixture.write(attempt(claim, lost_for_good.clone())).await);
    assert_eq!(fixture.history(claim.run_id).await, [stored(lost_for_good, 1)]);
}

pub async fn a_later_claim_finishes_the_attempt_of_an_earlier_claim(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(attempt(claim, begun("charge"))).await);
    fixture.advance(workflow_tests::builders::LEASE);
    let later = fixture.claim_only().await.claim;
    // The row keeps the time at which the attempt first started.
    let again = StepAttempt { started_at: fixture.now(), ..begun("charge") };
    applied(&fixture.write(attempt(later, again)).await);
    assert_eq!(fixture.history(claim.run_id).await, [stored(begun("charge"), 2)]);
    let done = succeeded("charge", 0, "1");
    applied(&fixture.write(attempt(later, StepAttempt { started_at: fixture.now(), ..done.clone() })).await);
    assert_eq!(fixture.history(claim.run_id).await, [stored(done, 2)]);
}

pub async fn the_epoch_of_the_claim_goes_into_the_row(fixture: Fixture) {
    let (_, current) = fixture.taken_over().await;
    let row = StepAttempt { epoch: 77, ..succeeded("charge", 0, "1") };
    applied(&fixture.write(attempt(current, row)).await);
    assert_eq!(fixture.history(current.run_id).await[0].epoch, current.epoch);
}

pub async fn payloads_come_back_byte_for_byte(fixture: Fixture) {
    let runs: Vec<NewRun> = PAYLOADS.iter().map(|text| NewRun { input: (*text).into(), ..new_run() }).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await.iter().for_each(created);
    let claimed = fixture.claim(&workflow_tests::builders::claim_request()).await.runs;
    assert_eq!(claimed.len(), PAYLOADS.len());
    let mut writes = Vec::new();
    for run in &claimed {
        writes.push(attempt(run.claim, succeeded("echo", 0, &run.input)));
        writes.push(succeed(run.claim, &run.input));
    }
    fixture.commit(&writes).await.iter().for_each(applied);
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    let ended = fixture.store.ended(&ids).await.unwrap();
    for (new, text) in runs.iter().zip(PAYLOADS) {
        assert_eq!(&claimed.iter().find(|run| run.claim.run_id == new.id).unwrap().input, text, "claimed");
        let run = fixture.run(new.id).await;
        assert_eq!(run.input, *text, "input");
        assert_eq!(run.output.as_deref(), Some(*text), "output");
        assert_eq!(fixture.history(new.id).await[0].output.as_deref(), Some(*text), "output of a step");
        assert_eq!(ended.iter().find(|run| run.id == new.id).unwrap().output.as_deref(), Some(*text), "ended");
    }
}

pub async fn large_payloads_come_back(fixture: Fixture) {
    // 2 MiB is the default limit of a payload. The text contains characters that must be escaped.
    let text = format!("\"{}\"", "é\\\"x".repeat(2 * 1024 * 1024 / 5));
    let new = NewRun { input: text.clone(), ..new_run() };
    fixture.start(&new).await;
    let run = fixture.claim_only().await;
    assert!(run.input == text, "claimed");
    let writes = [
        attempt(run.claim, succeeded("a", 0, &text)),
        attempt(run.claim, succeeded("b", 1, &text)),
        attempt(run.claim, succeeded("c", 2, &text)),
        succeed(run.claim, &text),
    ];
    fixture.commit(&writes).await.iter().for_each(applied);
    let (run, history) = fixture.snapshot(new.id).await;
    assert!(run.input == text && run.output.as_ref() == Some(&text), "payloads of the run");
    assert_eq!(history.len(), 3);
    assert!(history.iter().all(|row| row.output.as_ref() == Some(&text)), "outputs of the steps");
}

pub async fn odd_names_and_errors_come_back(fixture: Fixture) {
    let claim = fixture.held().await;
    let names = ["it's", "a \"b\" \\ c", "$1 ? {} %s", "漢字 😀", "a:1", " ", "NULL", "\u{e9}", "e\u{301}"];
    let mut odd = StoredError::new(ErrorKind::Panic, "NUL \0, quote ' \" \\, 😀 and\nlines");
    odd.causes = vec!["first \0".into(), String::new()];
    odd.fatal = true;
    odd.retry_after_us = Some(u64::MAX);
    odd.step_key = Some("it's".into());
    let rows: Vec<StepAttempt> = names
        .iter()
        .zip(0..)
        .map(|(name, position)| StepAttempt { position: Some(position), error: Some(odd.clone()), ..failed(name, 1) })
        .collect();
    let writes: Vec<_> = rows.iter().map(|row| attempt(claim, row.clone())).collect();
    fixture.commit(&writes).await.iter().for_each(applied);
    let expected: Vec<StepAttempt> = rows.into_iter().map(|row| stored(row, 1)).collect();
    assert_eq!(fixture.history(claim.run_id).await, expected);

    applied(&fixture.write(end(claim, RunEnd::Failed(odd.clone()))).await);
    assert_eq!(fixture.run(claim.run_id).await.error, Some(odd));
}

pub async fn history_is_in_the_order_of_positions(fixture: Fixture) {
    let claim = fixture.held().await;
    // The positions have two digits and the reverse order of the names. The names are sorted by
    // bytes, which differs from every linguistic order.
    let mut writes = Vec::new();
    for position in (0..12).rev() {
        writes.push(attempt(claim, succeeded(&format!("s{}", 11 - position), position, "1")));
    }
    for name in ["b", "B", "a:1", "a", "a:10", "a:2", "é", "z"] {
        writes.push(attempt(claim, failed(name, 2)));
        writes.push(attempt(claim, failed(name, 10)));
        writes.push(attempt(claim, failed(name, 1)));
    }
    fixture.commit(&writes).await.iter().for_each(applied);
    let history = fixture.history(claim.run_id).await;
    let order: Vec<(&str, i64)> = history.iter().map(|row| (row.step_key.as_str(), row.attempt)).collect();
    let finals: Vec<String> = (0..12).map(|position| format!("s{}", 11 - position)).collect();
    let mut expected: Vec<(&str, i64)> = finals.iter().map(|name| (name.as_str(), 1)).collect();
    for name in ["B", "a", "a:1", "a:10", "a:2", "b", "z", "é"] {
        expected.extend([(name, 1), (name, 2), (name, 10)]);
    }
    assert_eq!(order, expected);
}

pub async fn every_kind_of_step_comes_back(fixture: Fixture) {
    let claim = fixture.held().await;
    let mut expected = Vec::new();
    for (kind, position) in StepKind::ALL.into_iter().zip(0..) {
        let row = StepAttempt { kind, ..succeeded(kind.as_str(), position, "1") };
        applied(&fixture.write(attempt(claim, row.clone())).await);
        // A history does not include the items of a stream.
        let output = row.output.clone().filter(|_| kind != StepKind::Emitted);
        expected.push(stored(StepAttempt { output, ..row }, 1));
    }
    // The output of a sleep is its wake time, which is stored when the sleep starts.
    let waiting = StepAttempt { kind: StepKind::Sleep, output: Some("1800000000".into()), ..begun("wait") };
    assert_eq!(waiting.status, AttemptStatus::Running);
    applied(&fixture.write(attempt(claim, waiting.clone())).await);
    expected.push(stored(waiting, 1));
    assert_eq!(fixture.history(claim.run_id).await, expected);
}
