use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;

use workflow_engine::model::{Claim, NewRun};
use workflow_engine::store::{
    DeleteOutcome, DeleteWrite, DeletedRun, ForkWrite, Outcome, ReviveWrite, RunEnd, StartOutcome, Store, Write,
};
use workflow_sdk::{OnParentEnd, RunFilter, RunId, RunStatus, SignalOutcome, StepAttempt, StepKind};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    attempt, begin_child, begun, child_of, claim_request, end, end_in_family, error, keyed, new_run, park, signal,
    start, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, lost, signaled, started};

const MINUTE: Duration = Duration::from_secs(60);

fn delete(run_id: RunId) -> Write {
    Write::Delete(DeleteWrite { run_id, ended_before: None })
}

fn fork(source: RunId, new: &NewRun, before: i64) -> Write {
    Write::Fork(Box::new(ForkWrite { source, new: new.clone(), before, kept: None }))
}

fn revive(run_id: RunId) -> Write {
    Write::Revive(ReviveWrite { run_id, attempt: 1, again: Vec::new(), deadline: None })
}

#[track_caller]
fn deleted(outcome: &Outcome) -> DeleteOutcome {
    match outcome {
        Outcome::Deleted(outcome) => *outcome,
        other => panic!("expected Deleted, got {other:?}"),
    }
}

fn rows(attempts: u64, signals: u64) -> DeleteOutcome {
    DeleteOutcome::Deleted(DeletedRun::new(attempts, signals))
}

/// Returns the claim of a run with this key that has ended, with three rows of history and two
/// signals.
async fn ended(fixture: &Fixture, key: &str) -> Claim {
    fixture.start(&keyed(key)).await;
    let claim = fixture.claim_only().await.claim;
    let published = StepAttempt { kind: StepKind::Published, position: None, ..succeeded("progress", 0, "1") };
    for row in [succeeded("a", 1, "1"), published, begun("b")] {
        applied(&fixture.write(attempt(claim, row)).await);
    }
    for payload in ["1", "2"] {
        let sent = fixture.write(Write::Signal(signal(claim.run_id, "paid", payload))).await;
        assert_eq!(signaled(&sent), SignalOutcome::Accepted);
    }
    applied(&fixture.write(succeed(claim, "1")).await);
    claim
}

async fn failed(fixture: &Fixture) -> RunId {
    let claim = fixture.held().await;
    applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
    claim.run_id
}

pub async fn a_deleted_run_is_gone_and_its_key_is_free(fixture: Fixture) {
    let run = ended(&fixture, "order-42").await.run_id;
    let other = ended(&fixture, "order-43").await.run_id;
    let before = fixture.snapshot(other).await;
    assert_eq!(deleted(&fixture.write(delete(run)).await), rows(3, 2));
    let second = fixture.second().await;
    for store in [&fixture.store, &second] {
        assert_eq!(store.run(run).await.unwrap(), None);
        assert_eq!(store.history(run).await.unwrap(), []);
        assert_eq!(store.published(run, "progress").await.unwrap(), None);
        assert!(store.inbox(run, &["paid".into()]).await.unwrap().is_none());
        assert!(store.ended(&[run]).await.unwrap().is_empty());
        assert_eq!(store.missing(&[run, other]).await.unwrap(), [run]);
        assert_eq!(store.find("checkout", "order-42").await.unwrap(), None);
        let listed = store.list(&RunFilter::new()).await.unwrap();
        assert_eq!(listed.iter().map(|run| run.id).collect::<Vec<_>>(), [other]);
    }
    assert_eq!(fixture.snapshot(other).await, before);
    let again = keyed("order-42");
    assert_eq!(fixture.start(&again).await, StartOutcome::Created);
    assert_eq!(fixture.history(again.id).await, []);
}

/// Every column that names a run is known here, so that a new table is not forgotten.
pub async fn no_table_keeps_a_row_of_a_deleted_run(fixture: Fixture) {
    const OWNED: [&str; 5] =
        ["step_attempts", "workflow_signals", "workflow_event_waits", "workflow_seats", "workflow_tags"];
    let run = ended(&fixture, "order-42").await.run_id;
    let mut raw = fixture.raw().await;
    raw.execute(format!(
        "INSERT INTO workflow_event_waits (run_id, step_key, name, key, signal) VALUES ('{run}', 's', 'n', 'k', 'x');
         INSERT INTO workflow_seats (run_id, step_key, limit_name, key, asked_at) VALUES ('{run}', 's', 'l', 'k', 1);
         UPDATE workflow_runs SET tags = '{{\"customer\":\"42\"}}' WHERE id = '{run}'"
    ))
    .await;
    let mut naming = BTreeSet::new();
    for table in raw.table_names().await {
        let columns = raw.column_names(&table).await;
        naming.extend(columns.iter().filter(|name| name.contains("run")).map(|name| format!("{table}.{name}")));
    }
    let owned = OWNED.map(|table| format!("{table}.run_id"));
    // The children of a deleted run keep its id, and so do groups of failures.
    let kept = ["workflow_runs.parent_run_id", "workflow_failures.last_run_id"].map(str::to_owned);
    let known = owned.iter().cloned().chain(kept);
    assert_eq!(naming, known.collect::<BTreeSet<_>>(), "a new column that names a run: is it deleted with the run?");
    for table in OWNED {
        let count = format!("SELECT count(*) FROM {table} WHERE run_id = '{run}'");
        assert!(raw.number(count).await > 0, "{table} has a row of the run");
    }
    assert_eq!(deleted(&fixture.write(delete(run)).await), rows(3, 2));
    for table in raw.table_names().await {
        let columns = raw.column_names(&table).await;
        let found = raw.rows_as_text(&table, &columns).await;
        let id = run.to_string();
        assert!(!found.iter().any(|row| row.contains(&id)), "{table} has a row of the run: {found:?}");
    }
}

pub async fn only_an_ended_run_is_deleted(fixture: Fixture) {
    let running = fixture.held().await.run_id;
    let parked = fixture.held().await;
    applied(&fixture.write(park(parked, fixture.now() + MINUTE)).await);
    let paused = fixture.started().await;
    fixture.write(Write::Pause(paused)).await;
    for (id, status) in
        [(running, RunStatus::Running), (parked.run_id, RunStatus::Parked), (paused, RunStatus::Pending)]
    {
        let before = fixture.snapshot(id).await;
        assert_eq!(deleted(&fixture.write(delete(id)).await), DeleteOutcome::NotEnded(status));
        assert_eq!(fixture.snapshot(id).await, before);
    }
    canceled(&fixture.write(Write::Cancel(paused)).await);
    let succeeded = ended(&fixture, "order-42").await.run_id;
    let failed = failed(&fixture).await;
    for (id, deletes) in [(paused, rows(0, 0)), (succeeded, rows(3, 2)), (failed, rows(0, 0))] {
        assert_eq!(deleted(&fixture.write(delete(id)).await), deletes);
    }
    assert_eq!(fixture.claim_due().await, []);
}

pub async fn a_run_is_deleted_once(fixture: Fixture) {
    let run = ended(&fixture, "order-42").await.run_id;
    let outcomes = fixture.commit(&[delete(run), delete(run), delete(RunId::generate())]).await;
    let found: Vec<DeleteOutcome> = outcomes.iter().map(deleted).collect();
    assert_eq!(found, [rows(3, 2), DeleteOutcome::Unknown, DeleteOutcome::Unknown]);
    assert_eq!(deleted(&fixture.write(delete(run)).await), DeleteOutcome::Unknown);
}

pub async fn a_run_that_ended_later_is_kept(fixture: Fixture) {
    let run = ended(&fixture, "order-42").await.run_id;
    let before = |time| Write::Delete(DeleteWrite { run_id: run, ended_before: Some(time) });
    let ended_at = fixture.run(run).await.completed_at.expect("it has ended");
    assert_eq!(deleted(&fixture.write(before(ended_at)).await), DeleteOutcome::EndedLater);
    assert!(fixture.store.run(run).await.unwrap().is_some());
    let later = ended_at + Duration::from_micros(1);
    assert_eq!(deleted(&fixture.write(before(later)).await), rows(3, 2));
}

pub async fn a_child_is_kept_until_its_parent_has_its_result(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    applied(&fixture.write(begin_child(parent, &child)).await);
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(end_in_family(claim, Some(parent.run_id), false)).await);
    let awaited = DeleteOutcome::Awaited { parent: parent.run_id };
    assert_eq!(deleted(&fixture.write(delete(child.id)).await), awaited);
    applied(&fixture.write(park(parent, fixture.now())).await);
    assert_eq!(deleted(&fixture.write(delete(child.id)).await), awaited, "also while the parent is parked");
    let parent = fixture.claim_only().await.claim;
    let result = StepAttempt { kind: StepKind::Child, ..succeeded("child", 1, "1") };
    applied(&fixture.write(attempt(parent, result)).await);
    assert_eq!(deleted(&fixture.write(delete(child.id)).await), rows(0, 0));
    applied(&fixture.write(succeed(parent, "1")).await);
}

pub async fn a_child_outlives_its_deleted_parent(fixture: Fixture) {
    let parent = fixture.held().await;
    let ends = [OnParentEnd::Abandon, OnParentEnd::Abandon].into_iter().zip(["one", "two"]);
    let children: Vec<NewRun> = ends.map(|(end, step)| child_of(parent.run_id, step, end)).collect();
    for child in &children {
        applied(&fixture.write(begin_child(parent, child)).await);
    }
    let claims = fixture.claim(&claim_request()).await.runs;
    let outcomes = fixture.commit(&[delete(parent.run_id), end_in_family(parent, None, true)]).await;
    assert_eq!(deleted(&outcomes[0]), rows(2, 0));
    // One ends under its claim, the other by hand.
    let (first, other) = (claims[0].claim, claims[1].claim);
    applied(&fixture.write(end_in_family(first, Some(parent.run_id), true)).await);
    canceled(&fixture.write(Write::Terminate(other.run_id)).await);
    for child in &children {
        assert!(fixture.status(child.id).await.is_terminal());
        assert_eq!(deleted(&fixture.write(delete(child.id)).await), rows(0, 0));
    }
}

/// The writes stand in the batch in the reverse order of the contract.
pub async fn a_deletion_comes_after_what_its_batch_does_to_the_run(fixture: Fixture) {
    let revived = failed(&fixture).await;
    let ending = fixture.held().await;
    let found = ended(&fixture, "order-42").await;
    let dropped = fixture.started().await;
    let forked = new_run();
    let writes = [
        delete(revived),
        delete(ending.run_id),
        delete(dropped),
        delete(found.run_id),
        Write::Terminate(dropped),
        revive(revived),
        succeed(ending, "1"),
        Write::Signal(signal(ending.run_id, "paid", "1")),
        fork(found.run_id, &forked, 9),
        start(&keyed("order-42")),
    ];
    let outcomes = fixture.commit(&writes).await;
    let expected = [DeleteOutcome::NotEnded(RunStatus::Pending), rows(0, 1), rows(0, 0), rows(3, 2)];
    assert_eq!(outcomes[..4].iter().map(deleted).collect::<Vec<_>>(), expected);
    applied(&outcomes[5]);
    applied(&outcomes[6]);
    assert_eq!(signaled(&outcomes[7]), SignalOutcome::Accepted);
    assert_eq!(started(&outcomes[8]), StartOutcome::Created);
    assert_eq!(fixture.history(forked.id).await.len(), 1, "the fork has its history");
    assert!(matches!(started(&outcomes[9]), StartOutcome::Existing { id, .. } if id == found.run_id));
    assert_eq!(fixture.start(&keyed("order-42")).await, StartOutcome::Created);
}

pub async fn a_fork_of_a_deleted_run_is_refused(fixture: Fixture) {
    let source = ended(&fixture, "order-42").await.run_id;
    let copied = NewRun { key: Some("copy".into()), ..new_run() };
    assert_eq!(started(&fixture.write(fork(source, &copied, 9)).await), StartOutcome::Created);
    fixture.write(delete(source)).await;
    let refused = NewRun { key: Some("late".into()), ..new_run() };
    let outcome = fixture.write(fork(source, &refused, 9)).await;
    assert!(matches!(outcome, Outcome::SourceMissing), "{outcome:?}");
    assert_eq!(fixture.store.run(refused.id).await.unwrap(), None);
    assert_eq!(fixture.start(&keyed("late")).await, StartOutcome::Created, "the key is free");
    // The reply to the first fork was lost, and it is sent again.
    let before = fixture.snapshot(copied.id).await;
    assert_eq!(started(&fixture.write(fork(source, &copied, 9)).await), StartOutcome::Created);
    assert_eq!(fixture.snapshot(copied.id).await, before);
    // A fork from the beginning copies nothing.
    assert_eq!(started(&fixture.write(fork(source, &new_run(), 1)).await), StartOutcome::Created);
    assert_eq!(fixture.claim_due().await.len(), 3);
}

pub async fn a_claim_of_a_deleted_run_is_lost(fixture: Fixture) {
    // Enough batches for the stores to know the claim without asking.
    let claim = fixture.held().await;
    for step in 0..20 {
        applied(&fixture.write(attempt(claim, begun(&format!("step-{step}")))).await);
    }
    canceled(&fixture.second().await.commit(&[Write::Terminate(claim.run_id)]).await.unwrap()[0]);
    assert_eq!(deleted(&fixture.write(delete(claim.run_id)).await), rows(20, 0));
    lost(&fixture.write(attempt(claim, succeeded("a", 1, "1"))).await);
    lost(&fixture.write(succeed(claim, "1")).await);
    lost(&fixture.write(park(claim, fixture.now())).await);
    lost(&fixture.write(revive(claim.run_id)).await);
    let sent = fixture.write(Write::Signal(signal(claim.run_id, "paid", "1"))).await;
    assert_eq!(signaled(&sent), SignalOutcome::Unknown);
    assert_eq!(fixture.history(claim.run_id).await, []);
    assert!(fixture.store.begin(claim).await.unwrap().is_none(), "no transactional step begins");
}

/// Two processes write at the same moment, so each pair of writes meets in both orders.
async fn race<T: Send + 'static>(
    fixture: &Fixture,
    ids: Vec<T>,
    one: impl Fn(&T) -> Write + Send + 'static,
    other: impl Fn(&T) -> Write + Send + 'static,
) -> Vec<(T, Outcome, Outcome)> {
    let second = fixture.second().await;
    let commit = |store: &Arc<dyn Store>, writes: Vec<Write>| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut outcomes = Vec::new();
            for write in writes {
                outcomes.extend(store.commit(std::slice::from_ref(&write)).await.expect("commit"));
            }
            outcomes
        })
    };
    let ones = commit(&fixture.store, ids.iter().map(one).collect());
    let others = commit(&second, ids.iter().map(other).collect());
    let (ones, others) = (ones.await.unwrap(), others.await.unwrap());
    ids.into_iter().zip(ones).zip(others).map(|((id, one), other)| (id, one, other)).collect()
}

const RACES: usize = 40;

pub async fn a_deletion_beside_a_retry_is_whole(fixture: Fixture) {
    let mut runs = Vec::new();
    for _ in 0..RACES {
        runs.push(failed(&fixture).await);
    }
    for (run, deletion, retry) in race(&fixture, runs, |run| delete(*run), |run| revive(*run)).await {
        let found = fixture.store.run(run).await.unwrap().map(|run| run.status);
        match deleted(&deletion) {
            DeleteOutcome::Deleted(_) => {
                assert!(found.is_none());
                lost(&retry);
            }
            refusal => {
                assert_eq!(refusal, DeleteOutcome::NotEnded(RunStatus::Pending));
                assert_eq!(found, Some(RunStatus::Pending));
                applied(&retry);
            }
        }
    }
}

pub async fn a_deletion_beside_a_start_with_its_key_leaves_one_run_at_most(fixture: Fixture) {
    let mut runs = Vec::new();
    for number in 0..RACES {
        runs.push((ended(&fixture, &format!("order-{number}")).await.run_id, keyed(&format!("order-{number}"))));
    }
    for ((run, new), deletion, start) in race(&fixture, runs, |(run, _)| delete(*run), |(_, new)| start(new)).await {
        assert_eq!(deleted(&deletion), rows(3, 2));
        assert_eq!(fixture.store.run(run).await.unwrap(), None);
        let found = fixture.store.run(new.id).await.unwrap();
        match started(&start) {
            StartOutcome::Created => assert!(found.is_some()),
            StartOutcome::Existing { id, .. } => assert_eq!((id, found), (run, None)),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn a_deletion_beside_a_signal_or_a_fork_leaves_no_row(fixture: Fixture) {
    let mut runs = Vec::new();
    for number in 0..RACES {
        runs.push((ended(&fixture, &format!("order-{number}")).await.run_id, new_run()));
    }
    let signals = runs.iter().map(|(run, _)| *run).take(RACES / 2).collect::<Vec<_>>();
    let send = |run: &RunId| Write::Signal(signal(*run, "paid", "3"));
    for (run, deletion, signal) in race(&fixture, signals, |run| delete(*run), send).await {
        assert_eq!(deleted(&deletion), rows(3, 2));
        assert!(matches!(signaled(&signal), SignalOutcome::Finished | SignalOutcome::Unknown));
        assert!(fixture.store.inbox(run, &["paid".into()]).await.unwrap().is_none());
    }
    let forks = runs.split_off(RACES / 2);
    let fork = |(run, new): &(RunId, NewRun)| fork(*run, new, 9);
    for ((_, new), deletion, forked) in race(&fixture, forks, |(run, _)| delete(*run), fork).await {
        assert_eq!(deleted(&deletion), rows(3, 2));
        match forked {
            Outcome::SourceMissing => assert_eq!(fixture.store.run(new.id).await.unwrap(), None),
            other => {
                assert_eq!(started(&other), StartOutcome::Created);
                assert_eq!(fixture.history(new.id).await.len(), 1, "a fork without its history");
            }
        }
    }
}

/// Processes end, retry, signal and delete the same families in different orders.
pub async fn concurrent_deletions_of_families_do_not_deadlock(fixture: Fixture) {
    fixture.started_many(20).await;
    let parents: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let child = |parent: &Claim, step: usize| child_of(parent.run_id, &step.to_string(), OnParentEnd::Cancel);
    let starts = parents.iter().flat_map(|parent| (0..4).map(|step| begin_child(*parent, &child(parent, step))));
    fixture.commit(&starts.collect::<Vec<_>>()).await.iter().for_each(applied);
    let children = fixture.claim(&claim_request()).await.runs;
    let family = || parents.iter().chain(children.iter().map(|child| &child.claim)).map(|claim| claim.run_id);
    let ends = children.iter().map(|child| end_in_family(child.claim, child.parent_run_id, true));
    let ends = ends.chain(parents.iter().map(|parent| end_in_family(*parent, None, true)));
    let deletions = family().chain(family()).chain(family()).map(delete);
    let signals = family().map(|run| Write::Signal(signal(run, "paid", "1")));
    let mut writes: Vec<Write> = ends.chain(deletions).chain(signals).chain(family().map(revive)).collect();
    fastrand::shuffle(&mut writes);
    let mut processes = Vec::new();
    for number in 0..4 {
        let store = fixture.second().await;
        let share: Vec<Write> = writes.iter().skip(number).step_by(4).cloned().collect();
        processes.push(tokio::spawn(async move {
            for batch in share.chunks(8) {
                store.commit(batch).await.expect("no deadlock");
            }
        }));
    }
    for process in processes {
        process.await.unwrap();
    }
    // A child that a parent still awaited is deleted with the parent or after it.
    let parents_first = family().map(delete).collect::<Vec<_>>();
    fixture.commit(&parents_first).await;
    fixture.commit(&parents_first).await;
    assert!(fixture.store.list(&RunFilter::new()).await.unwrap().is_empty());
}

/// A process deletes runs, some per commit, and is killed in the middle, again and again.
pub async fn a_kill_leaves_no_half_deleted_run(fixture: Fixture) {
    const RUNS: i64 = 1000;
    const STEPS: i64 = 20;
    let ids = fixture.started_many(usize::try_from(RUNS).unwrap()).await;
    let claims: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    for claims in claims.chunks(50) {
        let step = |claim: &Claim, number| attempt(*claim, succeeded(&format!("step-{number}"), number, "1"));
        let steps = claims.iter().flat_map(|claim| (1..=STEPS).map(|number| step(claim, number)));
        let signals = claims.iter().map(|claim| Write::Signal(signal(claim.run_id, "paid", "1")));
        let ends = claims.iter().map(|claim| succeed(*claim, "1"));
        fixture.commit(&steps.chain(signals).chain(ends).collect::<Vec<_>>()).await;
    }
    assert_eq!((claims.len(), ids.len()), (RUNS as usize, RUNS as usize));
    let mut raw = fixture.raw().await;
    let (mut left, mut kills) = (RUNS, 0);
    while left > 0 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delete"));
        command.arg(fixture.url()).arg(fixture.options().schema).kill_on_drop(true);
        let mut process = command.spawn().expect("run the program");
        // Past a few commits, in the middle of one.
        let goal = left - fastrand::i64(1..80);
        while left > goal && process.try_wait().expect("the state of the process").is_none() {
            left = raw.number("SELECT count(*) FROM workflow_runs").await;
        }
        kills += i64::from(process.try_wait().expect("the state of the process").is_none());
        process.kill().await.expect("kill the process");
        // One statement: the server may still commit what the killed process asked for.
        let rows = raw
            .text(
                "SELECT (SELECT count(*) FROM workflow_runs) || ' runs, ' ||
                        (SELECT count(*) FROM step_attempts) || ' attempts, ' ||
                        (SELECT count(*) FROM workflow_signals) || ' signals'",
            )
            .await;
        left = rows.split(' ').next().and_then(|runs| runs.parse().ok()).expect("a number of runs");
        assert_eq!(rows, format!("{left} runs, {} attempts, {left} signals", left * STEPS), "a half-deleted run");
    }
    assert!(kills > 0, "no process was killed in its work");
}
