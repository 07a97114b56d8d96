//! Parts of histories, for display.

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Claim, StepAttempt, StepKind};
use workflow_engine::store::{HistoryPlace, HistoryRow, HistoryRows, HistoryScan, MOST_UNDECIDED};
use workflow_sdk::{RunId, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{attempt, begun, failed, succeeded};
use workflow_tests::outcome::applied;

/// More bytes than any payload of these cases.
const ALL: u32 = 1_000_000;

async fn read(fixture: &Fixture, run: RunId, rows: HistoryRows, payload_bytes: u32) -> Vec<HistoryRow> {
    fixture.store.history_page(&HistoryScan { run, rows, payload_bytes }).await.expect("a part of a history")
}

fn at(fixture: &Fixture, row: StepAttempt) -> StepAttempt {
    StepAttempt { started_at: fixture.now(), ..row }
}

/// A run whose steps have ended in another order than that of their keys and of their beginnings.
async fn run_with_a_history(fixture: &Fixture) -> Claim {
    let claim = fixture.held().await;
    let item = |number: i64| StepAttempt {
        kind: StepKind::Emitted,
        status: AttemptStatus::Succeeded,
        output: Some(number.to_string()),
        attempt: number,
        ..begun("emitted/log")
    };
    let rows = [
        begun("wait"),
        begun("zip"),
        failed("ask", 1),
        failed("ask", 2),
        StepAttempt { attempt: 3, ..succeeded("ask", 2, "\"late\"") },
        succeeded("zip", 1, "[1, 2]"),
        succeeded("big", 3, &format!("\"{}\"", "x".repeat(1000))),
        failed("pay", 1),
        StepAttempt { kind: StepKind::Patch, position: None, ..succeeded("patch/v2", 4, "true") },
        item(1),
        item(2),
        item(3),
    ];
    for row in rows {
        applied(&fixture.write(attempt(claim, at(fixture, row))).await);
        fixture.advance(Duration::from_secs(1));
    }
    claim
}

pub async fn pages_of_a_history_are_the_history(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let history = fixture.history(run).await;
    assert_eq!(history.len(), 9, "{history:?}");
    for limit in [1, 2, 3, 9, 100] {
        let mut found: Vec<StepAttempt> = Vec::new();
        loop {
            let after = found.last().map(HistoryPlace::of);
            let page = read(&fixture, run, HistoryRows::Delivered { after, limit }, ALL).await;
            let is_full = page.len() == limit as usize;
            assert!(found.len() <= history.len(), "a page repeats rows");
            found.extend(page.into_iter().map(|row| row.row));
            if !is_full {
                break;
            }
        }
        assert_eq!(found, history, "pages of {limit}");
    }
    let none = read(&fixture, RunId::generate(), HistoryRows::Delivered { after: None, limit: 5 }, ALL).await;
    assert_eq!(none, []);
}

pub async fn a_large_payload_is_left_out_of_a_page_with_its_size(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let rows = || HistoryRows::Delivered { after: None, limit: 100 };
    let whole = read(&fixture, run, rows(), ALL).await;
    let cut = read(&fixture, run, rows(), 999).await;
    let big = cut.iter().find(|row| row.row.step_key == "big").expect("the large row");
    assert_eq!((big.output_bytes, big.row.output.as_deref()), (Some(1002), None));
    for (row, cut) in whole.iter().zip(&cut).filter(|(row, _)| row.row.step_key != "big") {
        assert_eq!(row, cut);
        let is_item = row.row.kind == StepKind::Emitted;
        let size = row.row.output.as_ref().map(|text| text.len() as u64).filter(|_| !is_item);
        assert_eq!(row.output_bytes, size, "{row:?}");
        assert_eq!(row.error_bytes.is_some(), row.row.error.is_some(), "{row:?}");
    }
    let none = read(&fixture, run, rows(), 1).await;
    assert!(none.iter().all(|row| row.row.output.is_none() && row.row.error.is_none()));
}

pub async fn steps_are_read_in_the_order_of_their_outcomes(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let steps = async |after, limit, attempts| {
        let rows = read(&fixture, run, HistoryRows::Steps { after, limit, attempts }, ALL).await;
        assert!(rows.iter().all(|row| !row.is_cut));
        rows.iter().map(|row| (row.row.step_key.clone(), row.row.attempt)).collect::<Vec<_>>()
    };
    let named =
        |all: &[(&str, i64)]| all.iter().map(|(key, attempt)| ((*key).to_owned(), *attempt)).collect::<Vec<_>>();
    let all = named(&[("zip", 1), ("ask", 1), ("ask", 2), ("ask", 3), ("big", 1), ("pay", 1), ("wait", 1)]);
    assert_eq!(steps(0, 100, 9).await, all);
    assert_eq!(steps(0, 2, 9).await, all[..4]);
    assert_eq!(steps(1, 1, 9).await, all[1..4]);
    assert_eq!(steps(2, 2, 9).await, all[4..6], "the steps without an outcome follow");
    assert_eq!(steps(4, 2, 9).await, all[6..]);
    assert_eq!(steps(5, 2, 9).await, []);
    assert_eq!(steps(0, 100, 2).await, [&all[..1], &all[2..]].concat(), "the last attempts of each step");
}

/// However many attempts failed, a read says whether it has looked at all of them.
pub async fn a_read_of_steps_says_that_it_is_cut(fixture: Fixture) {
    let claim = fixture.held().await;
    let most = i64::from(MOST_UNDECIDED);
    let writes = |numbers: std::ops::RangeInclusive<i64>| {
        numbers.map(|number| attempt(claim, at(&fixture, failed("ask", number)))).collect::<Vec<_>>()
    };
    let read_all = async || {
        let steps = HistoryRows::Steps { after: 0, limit: 10, attempts: 2 };
        let (steps, open) = (read(&fixture, claim.run_id, steps, ALL).await, HistoryRows::Open { limit: 3 });
        (steps, read(&fixture, claim.run_id, open, ALL).await)
    };
    fixture.store.commit(&writes(1..=most)).await.expect("a commit");
    let (steps, open) = read_all().await;
    let numbers: Vec<i64> = steps.iter().map(|row| row.row.attempt).collect();
    assert_eq!(numbers, [most - 1, most]);
    assert!(steps.iter().chain(&open).all(|row| !row.is_cut) && open.len() == 3, "{open:?}");
    fixture.store.commit(&writes(most + 1..=most + 2)).await.expect("a commit");
    applied(&fixture.write(attempt(claim, at(&fixture, succeeded("zip", 1, "7")))).await);
    let (steps, open) = read_all().await;
    let keys: Vec<&str> = steps.iter().map(|row| row.row.step_key.as_str()).collect();
    assert_eq!(keys, ["zip", "ask", "ask"]);
    assert!(steps.iter().chain(&open).all(|row| row.is_cut) && open.len() == 3, "{open:?}");
}

/// Every stream has its last item in the pages, wherever its key stands among the other rows.
pub async fn pages_have_the_last_item_of_every_stream(fixture: Fixture) {
    let claim = fixture.held().await;
    let item = |name: &str, number: i64| StepAttempt {
        kind: StepKind::Emitted,
        status: AttemptStatus::Succeeded,
        output: Some("1".into()),
        attempt: number,
        ..begun(&StepKind::Emitted.key_of(name))
    };
    let first = StepAttempt { status: AttemptStatus::Running, ..item("b", 0) };
    let items = [item("a", 1), item("a", 2), first, item("b", 1), item("b", 2), item("c", 1)];
    for row in [begun("do"), begun("emit"), begun("stop")].into_iter().chain(items) {
        applied(&fixture.write(attempt(claim, at(&fixture, row))).await);
    }
    let history = fixture.history(claim.run_id).await;
    assert_eq!(history.len(), 7, "{history:?}");
    for limit in 1..=8 {
        let mut found: Vec<StepAttempt> = Vec::new();
        loop {
            let after = found.last().map(HistoryPlace::of);
            let page = read(&fixture, claim.run_id, HistoryRows::Delivered { after, limit }, ALL).await;
            let is_full = page.len() == limit as usize;
            found.extend(page.into_iter().map(|row| row.row));
            assert!(found.len() <= history.len(), "a page repeats rows");
            if !is_full {
                break;
            }
        }
        assert_eq!(found, history, "pages of {limit}");
    }
}

pub async fn open_steps_are_read_beside_the_last_outcome(fixture: Fixture) {
    let claim = run_with_a_history(&fixture).await;
    let open = async |limit| {
        let rows = read(&fixture, claim.run_id, HistoryRows::Open { limit }, ALL).await;
        rows.iter().map(|row| (row.row.step_key.clone(), row.row.attempt)).collect::<Vec<_>>()
    };
    let keys = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), 1)).collect::<Vec<_>>();
    assert_eq!(open(10).await, keys(&["big", "pay", "wait"]));
    assert_eq!(open(2).await, keys(&["big", "pay"]));
    applied(&fixture.write(attempt(claim, succeeded("wait", 5, "7"))).await);
    assert_eq!(open(10).await, keys(&["pay", "wait"]));
    assert_eq!(read(&fixture, RunId::generate(), HistoryRows::Open { limit: 1 }, ALL).await, []);
}

pub async fn one_attempt_is_read_by_its_key(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let row = |key: &str, attempt| HistoryRows::Attempt { step_key: key.into(), attempt };
    let found = read(&fixture, run, row("ask", 3), ALL).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].row.output.as_deref(), Some("\"late\""));
    assert_eq!(read(&fixture, run, row("ask", 4), ALL).await, []);
    assert_eq!(read(&fixture, run, row("big", 1), 10).await[0].row.output, None);
    assert!(found[0].row.started_at > Timestamp::from_micros(0));
}

pub async fn the_attempts_of_a_step_are_read_with_its_repetitions(fixture: Fixture) {
    let claim = fixture.held().await;
    let rows = [
        failed("ask", 1),
        StepAttempt { attempt: 2, ..succeeded("ask", 1, "1") },
        succeeded("ask!", 2, "0"),
        succeeded("ask:1", 3, "2"),
        succeeded("ask/in", 4, "3"),
        succeeded("ask:10", 5, "4"),
        succeeded("asking", 6, "5"),
        succeeded("as", 7, "6"),
        begun("ask:2"),
    ];
    for row in rows {
        applied(&fixture.write(attempt(claim, at(&fixture, row))).await);
    }
    for limit in 1..=6 {
        let mut found: Vec<StepAttempt> = Vec::new();
        loop {
            let after = found.last().map(HistoryPlace::of);
            let rows = HistoryRows::OfStep { step_key: "ask".into(), after, limit };
            let page = read(&fixture, claim.run_id, rows, ALL).await;
            let is_full = page.len() == limit as usize;
            found.extend(page.into_iter().map(|row| row.row));
            assert!(found.len() <= 5, "a page repeats rows, or has some of other steps: {found:?}");
            if !is_full {
                break;
            }
        }
        let keys: Vec<(&str, i64)> = found.iter().map(|row| (row.step_key.as_str(), row.attempt)).collect();
        assert_eq!(keys, [("ask", 1), ("ask", 2), ("ask:1", 1), ("ask:10", 1), ("ask:2", 1)], "pages of {limit}");
        assert_eq!(found[1].output.as_deref(), Some("1"));
    }
    let none = HistoryRows::OfStep { step_key: "no such step".into(), after: None, limit: 1 };
    assert_eq!(read(&fixture, claim.run_id, none, ALL).await, []);
}
