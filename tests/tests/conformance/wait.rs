//! The things that runs wait for: the runs that hold the slots and those that go before a due run,
//! and the steps that parked runs wait for.

use std::time::Duration;

use workflow_engine::model::{Claim, Lane, NewRun, Priority, StartTime, WorkerId};
use workflow_engine::store::{ClaimRequest, MOST_ROWS, Write};
use workflow_sdk::{RunId, StepAttempt, StepKind, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, begun, claim_by, error, failed, lane_of, new_run, park, start, succeeded,
};
use workflow_tests::{Fixture, outcome};

const MANY: u32 = 1_000;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn mail() -> Lane {
    lane_of("mail", "checkout", "1")
}

async fn started(fixture: &Fixture, run: NewRun) -> RunId {
    outcome::created(&fixture.write(start(&run)).await);
    run.id
}

async fn started_behind(fixture: &Fixture, gate: Option<&str>) -> RunId {
    started(fixture, NewRun { lane: mail(), gate: gate.map(str::to_owned), ..new_run() }).await
}

async fn before(fixture: &Fixture, run: RunId) -> u32 {
    fixture.store.due_before(&fixture.run(run).await, MANY).await.expect("a count")
}

async fn holders(fixture: &Fixture, queue: &str, gate: Option<&str>, limit: u32) -> Vec<RunId> {
    fixture.store.slot_holders(queue, gate, limit).await.expect("a read")
}

/// Beside runs that claims of the lane do not take: of another version, behind a gate, paused, and
/// due later.
pub async fn the_runs_before_a_run_are_those_that_claims_take_first(fixture: Fixture) {
    let begun = fixture.held().await;
    outcome::applied(&fixture.write(park(begun, fixture.now() + 40 * MINUTE)).await);
    let urgent = || NewRun { priority: Some(Priority::Urgent), ..new_run() };
    started(&fixture, NewRun { lane: lane_of("default", "checkout", "2"), ..urgent() }).await;
    started(&fixture, NewRun { gate: Some("a".into()), ..urgent() }).await;
    started(&fixture, NewRun { start: StartTime::After(23 * HOUR), ..urgent() }).await;
    let paused = started(&fixture, urgent()).await;
    fixture.write(Write::Pause(paused)).await;

    let mut runs = vec![begun.run_id];
    for (priority, minutes) in [
        (Priority::Low, 9_u32),
        (Priority::Normal, 2),
        (Priority::Normal, 0),
        (Priority::Normal, 8),
        (Priority::High, 2),
        (Priority::High, 0),
        (Priority::Urgent, 0),
        (Priority::Low, 30),
    ] {
        runs.push(started(&fixture, NewRun { priority: Some(priority), ..new_run() }).await);
        fixture.advance(minutes * MINUTE);
    }
    let mut counted = Vec::new();
    for run in &runs {
        counted.push((before(&fixture, *run).await, *run));
    }
    counted.sort_unstable();
    let last = fixture.run(counted[runs.len() - 1].1).await;
    assert_eq!(fixture.store.due_before(&last, 2).await.expect("a count"), 2, "it counts to its bound");

    let worker = WorkerId::generate();
    let mut claimed = Vec::new();
    for _ in 0..=runs.len() {
        claimed.extend(fixture.claim(&claim_by(worker, 1)).await.runs.iter().map(|run| run.claim.run_id));
    }
    assert_eq!(counted, (0..).zip(claimed).collect::<Vec<_>>());

    let next = fixture.started().await;
    fixture.advance(2 * LEASE);
    assert_eq!(before(&fixture, next).await, 0, "running runs do not count");
    let mut elsewhere = fixture.run(next).await;
    elsewhere.lane = lane_of("none", "none", "1");
    assert_eq!(fixture.store.due_before(&elsewhere, MANY).await.expect("a count"), 0, "a lane that is not known");
}

pub async fn a_run_behind_a_gate_waits_for_those_behind_its_gate(fixture: Fixture) {
    let mut counts = Vec::new();
    for gate in [Some("a"), Some("b"), None, Some("a"), Some("a"), None] {
        let run = started_behind(&fixture, gate).await;
        counts.push(before(&fixture, run).await);
    }
    assert_eq!(counts, [0, 0, 0, 1, 2, 1]);
}

pub async fn the_runs_that_hold_slots_are_found_by_queue_and_gate(fixture: Fixture) {
    let mut of_mail = Vec::new();
    for gate in [None, Some("a"), Some("b"), Some("a"), None] {
        of_mail.push(started_behind(&fixture, gate).await);
    }
    let of_other = started(&fixture, NewRun { lane: lane_of("other", "checkout", "1"), ..new_run() }).await;
    assert_eq!(holders(&fixture, "mail", None, 10).await, [], "no run has begun");
    let lanes = vec![mail(), lane_of("other", "checkout", "1")];
    let request = ClaimRequest { lanes, gated: vec!["mail".into()], ..claim_by(WorkerId::generate(), 25) };
    let claimed = fixture.claim(&request).await;
    assert_eq!(claimed.runs.len(), 6);

    assert_eq!(holders(&fixture, "mail", None, 10).await, of_mail);
    assert_eq!(holders(&fixture, "mail", None, 3).await, of_mail[..3]);
    assert_eq!(holders(&fixture, "other", None, 10).await, [of_other]);
    assert_eq!(holders(&fixture, "mail", Some("a"), 10).await, [of_mail[1], of_mail[3]]);
    assert_eq!(holders(&fixture, "mail", Some("a"), 1).await, of_mail[1..2]);
    assert_eq!(holders(&fixture, "other", Some("a"), 10).await, [], "a gate of another queue");

    let parked = claimed.runs.iter().map(|run| run.claim).find(|claim| claim.run_id == of_mail[1]);
    outcome::applied(&fixture.write(park(parked.expect("it was claimed"), Timestamp::FAR_FUTURE)).await);
    assert_eq!(holders(&fixture, "mail", Some("a"), 10).await, [of_mail[3]], "a parked run holds no slot");
}

pub async fn a_started_run_makes_its_queue_known(fixture: Fixture) {
    let is_known = async |queue: &str| fixture.store.has_lane(queue).await.expect("a read");
    assert!(!is_known("mail").await);
    started_behind(&fixture, Some("a")).await;
    assert!(is_known("mail").await);
    assert!(!is_known("mai").await && !is_known("").await);
}

/// Records these rows, and parks the run.
async fn parked_after(fixture: &Fixture, claim: Claim, rows: impl IntoIterator<Item = StepAttempt>) {
    for row in rows {
        outcome::applied(&fixture.write(attempt(claim, row)).await);
    }
    outcome::applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
}

/// Beside a sleep, a step that was dropped between its attempts, and steps that have an outcome.
pub async fn the_steps_that_parked_runs_wait_for_are_found(fixture: Fixture) {
    let retried = |key: &str, number: i64| {
        let next = error("no answer").followed(4, fixture.now());
        StepAttempt { error: Some(next), ..failed(key, number) }
    };
    let wait = |key: &str, kind: StepKind| StepAttempt { kind, ..begun(key) };
    let first = fixture.held().await;
    let again = StepAttempt { attempt: 2, ..succeeded("again", 1, "7") };
    let rows = [
        wait("approve", StepKind::Signal),
        wait("nap", StepKind::Sleep),
        failed("dropped", 1),
        retried("charge", 1),
        retried("charge", 2),
        retried("again", 1),
        again,
        succeeded("done", 2, "7"),
    ];
    parked_after(&fixture, first, rows).await;
    let second = fixture.held().await;
    let waits = ["a", "b", "c", "d"].map(|key| wait(key, StepKind::Event));
    parked_after(&fixture, second, waits).await;
    let long = fixture.held().await;
    let outcomes = (1..=i64::from(MOST_ROWS)).map(|number| succeeded(&format!("a {number:02}"), number, "7"));
    parked_after(&fixture, long, outcomes.chain([wait("b", StepKind::Child)])).await;

    let ids = [first, second, long].map(|claim| claim.run_id);
    let mut found: Vec<(RunId, String)> = Vec::new();
    for (run, step) in fixture.store.awaited_steps(&ids).await.expect("a read") {
        found.push((run, step.to_string()));
    }
    found.sort();
    let text = |run: RunId, step: &str| (run, step.to_owned());
    let mut expected = vec![
        text(ids[0], r#"attempt 3/6 of step "charge""#),
        text(ids[0], r#"signal "approve""#),
        text(ids[1], r#"event "a""#),
        text(ids[1], r#"event "b""#),
        text(ids[1], r#"event "c""#),
    ];
    expected.sort();
    assert_eq!(found, expected, "at most three, and none behind a long history");
    assert_eq!(fixture.store.awaited_steps(&[]).await.expect("a read"), []);
}
