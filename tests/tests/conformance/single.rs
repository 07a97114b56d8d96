//! Single keys: at most one run of a workflow has one at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use workflow_engine::model::{
    Claim, MovedRun, NewRun, NewSingle, Priority, SingleKey, SingleUntil, StartTime, WhenTaken,
};
use workflow_engine::store::{Outcome, RetryWrite, ReviveWrite, RunEnd, StartOutcome, Write};
use workflow_sdk::{OnParentEnd, RunId, RunStatus, Timestamp};
use workflow_tests::builders::{
    begin_child, child_of, claim_request, continue_as_new, end, end_in_family, error, lane_of, new_run, park, signal,
    start, succeed,
};
use workflow_tests::outcome::{applied, started};
use workflow_tests::{Fixture, outcome};

const MINUTE: Duration = Duration::from_secs(60);

fn with(key: &str, until: SingleUntil, taken: WhenTaken) -> NewRun {
    NewRun { single: Some(NewSingle { key: SingleKey { key: key.into(), until }, taken }), ..new_run() }
}

/// A start that changes nothing if another run has the key.
fn single(key: &str) -> NewRun {
    with(key, SingleUntil::End, WhenTaken::Keep)
}

fn replacing(key: &str) -> NewRun {
    with(key, SingleUntil::End, WhenTaken::Replace)
}

/// A debounced start by its first try, which takes the key to be free.
pub fn debounced(key: &str) -> NewRun {
    NewRun { start: StartTime::After(MINUTE), ..with(key, SingleUntil::Begin, WhenTaken::Keep) }
}

/// The second try of a debounced start, which moves this run.
pub fn moving(key: &str, id: RunId, input: &str, max_wait: Option<Duration>) -> NewRun {
    let moved = MovedRun { id, input: input.into(), max_wait };
    NewRun {
        start: StartTime::After(MINUTE),
        input: input.into(),
        ..with(key, SingleUntil::Begin, WhenTaken::Move(moved))
    }
}

fn held(run: &NewRun) -> StartOutcome {
    StartOutcome::Held { id: run.id }
}

async fn claim(fixture: &Fixture, run: &NewRun) -> Claim {
    let claimed = fixture.claim_only().await.claim;
    assert_eq!(claimed.run_id, run.id);
    claimed
}

/// Starts a run with this key after the one before it has ended.
async fn started_anew(fixture: &Fixture, key: &str) -> NewRun {
    let run = single(key);
    assert_eq!(fixture.start(&run).await, StartOutcome::Created, "the key is free");
    assert_eq!(fixture.start(&single(key)).await, held(&run));
    run
}

pub async fn a_run_has_its_single_key_until_it_ends(fixture: Fixture) {
    let run = started_anew(&fixture, "doc-7").await;
    assert_eq!(fixture.run(run.id).await.single, run.single.map(|single| single.key));
    for end_of_run in [RunEnd::Succeeded("1".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        applied(&fixture.write(end(fixture.claim_only().await.claim, end_of_run)).await);
        started_anew(&fixture, "doc-7").await;
    }
    let pending = fixture.claim_only().await.claim.run_id;
    fixture.write(Write::Terminate(pending)).await;
    let pending = started_anew(&fixture, "doc-7").await;
    fixture.write(Write::Cancel(pending.id)).await;
    let expiring = NewRun { deadline: Some(StartTime::After(MINUTE)), ..single("doc-7") };
    assert_eq!(fixture.start(&expiring).await, StartOutcome::Created);
    fixture.advance(MINUTE);
    assert_eq!(fixture.start(&single("doc-7")).await, held(&expiring), "it has not ended yet");
    let expired = fixture.write(Write::Expire { limit: 10, patience: Duration::ZERO }).await;
    assert!(matches!(expired, Outcome::Changed(1)), "{expired:?}");
    started_anew(&fixture, "doc-7").await;
}

pub async fn a_run_that_waits_or_begins_anew_keeps_its_single_key(fixture: Fixture) {
    let run = started_anew(&fixture, "doc-7").await;
    let again = async || assert_eq!(fixture.start(&single("doc-7")).await, held(&run));
    applied(&fixture.write(park(claim(&fixture, &run).await, fixture.now())).await);
    again().await;
    applied(&fixture.write(continue_as_new(claim(&fixture, &run).await, "2")).await);
    again().await;
    let (until, error) = (fixture.now(), error("no luck"));
    let retry = RetryWrite { claim: claim(&fixture, &run).await, until, again: Vec::new(), error };
    applied(&fixture.write(Write::Retry(retry)).await);
    again().await;
    fixture.write(Write::Pause(run.id)).await;
    again().await;
}

pub async fn a_single_key_belongs_to_its_workflow_and_its_moment(fixture: Fixture) {
    let runs = [
        single("doc-7"),
        NewRun { lane: lane_of("default", "Checkout", "1"), ..single("doc-7") },
        single("Doc-7"),
        single("doc-7 "),
        debounced("doc-7"),
    ];
    for run in &runs {
        assert_eq!(fixture.start(run).await, StartOutcome::Created, "{run:?}");
    }
    let moved = NewRun { lane: lane_of("slow", "checkout", "2"), ..single("doc-7") };
    assert_eq!(fixture.start(&moved).await, held(&runs[0]), "queue and version do not matter");
    assert!(fixture.store.run(moved.id).await.unwrap().is_none());
    assert_eq!(fixture.store.find("checkout", "doc-7").await.unwrap(), None, "it is no idempotency key");
}

pub async fn starts_of_one_single_key_in_one_batch_find_each_other(fixture: Fixture) {
    let runs = [single("doc-7"), single("doc-8"), single("doc-7"), replacing("doc-7"), replacing("doc-7")];
    let other = new_run();
    let mut writes: Vec<Write> = runs.iter().map(start).collect();
    writes.push(start(&other));
    let outcomes: Vec<StartOutcome> = fixture.commit(&writes).await.iter().map(started).collect();
    let replaced = |run: &NewRun| StartOutcome::Replaced { id: run.id };
    let created = StartOutcome::Created;
    let expected = [created.clone(), created.clone(), held(&runs[0]), replaced(&runs[0]), replaced(&runs[3]), created];
    assert_eq!(outcomes, expected);
    let statuses = [runs[0].id, runs[1].id, runs[3].id, runs[4].id];
    let (pending, canceled) = (RunStatus::Pending, RunStatus::Canceled);
    for (id, status) in statuses.into_iter().zip([canceled, pending, canceled, pending]) {
        assert_eq!(fixture.status(id).await, status);
    }
}

pub async fn concurrent_single_starts_create_one_run(fixture: Fixture) {
    let second = fixture.second().await;
    let starts = (0..64).map(|number| {
        let store = if number % 2 == 0 { fixture.store.clone() } else { second.clone() };
        tokio::spawn(async move {
            let (run, plain) = (single("doc-7"), new_run());
            loop {
                let mut outcomes = store.commit(&[start(&run), start(&plain)]).await.expect("commit");
                outcome::created(&outcomes.remove(1));
                match outcomes.remove(0) {
                    Outcome::Busy => tokio::task::yield_now().await,
                    outcome => return (run.id, started(&outcome)),
                }
            }
        })
    });
    let mut ids = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        ids.push(match start.await.unwrap() {
            (id, StartOutcome::Created) => (id, true),
            (_, StartOutcome::Held { id }) => (id, false),
            (_, other) => panic!("expected Created or Held, got {other:?}"),
        });
    }
    assert_eq!(ids.iter().filter(|(_, is_new)| *is_new).count(), 1);
    assert!(ids.iter().all(|(id, _)| *id == ids[0].0));
}

pub async fn a_single_start_applied_again_changes_nothing(fixture: Fixture) {
    let first = replacing("doc-7");
    assert_eq!(fixture.start(&first).await, StartOutcome::Created);
    let second = replacing("doc-7");
    assert_eq!(fixture.start(&second).await, StartOutcome::Replaced { id: first.id });
    let before = fixture.snapshot(second.id).await;
    for run in [&first, &second] {
        assert_eq!(fixture.start(run).await, StartOutcome::Created, "the reply to the commit was lost");
    }
    fixture.commit(&[start(&second), start(&second)]).await.iter().for_each(outcome::created);
    assert_eq!(fixture.snapshot(second.id).await, before);
    applied(&fixture.write(succeed(claim(&fixture, &second).await, "1")).await);
    assert_eq!(fixture.start(&second).await, StartOutcome::Created, "it was started and has ended");
    assert_eq!(fixture.claim_due().await, []);
}

pub async fn a_replaced_run_is_asked_to_cancel_and_loses_its_key(fixture: Fixture) {
    let old = single("doc-7");
    fixture.start(&old).await;
    let old_claim = claim(&fixture, &old).await;
    let child = child_of(old.id, "child", OnParentEnd::Cancel);
    applied(&fixture.write(begin_child(old_claim, &child)).await);
    let new = replacing("doc-7");
    let outcomes = fixture.commit(&[start(&new), Write::Claim(claim_request())]).await;
    assert_eq!(started(&outcomes[0]), StartOutcome::Replaced { id: old.id });
    let Outcome::Claimed(claimed) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert!(claimed.runs.iter().any(|run| run.claim.run_id == new.id), "the new run begins at once");
    let run = fixture.run(old.id).await;
    assert_eq!((run.status, run.cancel_requested_at, run.single), (RunStatus::Running, Some(fixture.now()), None));
    assert_eq!(fixture.run(child.id).await.cancel_requested_at, None, "its parent has not ended yet");
    applied(&fixture.write(end_in_family(old_claim, None, true)).await);
    assert_eq!(fixture.start(&single("doc-7")).await, held(&new), "the end of the old run frees nothing");
}

pub async fn a_replaced_run_that_has_not_begun_ends_with_its_family(fixture: Fixture) {
    let parent = fixture.held().await;
    let step = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    let old = NewRun { parent: step.parent, ..single("doc-7") };
    fixture.start(&old).await;
    let wakes = fixture.run(parent.run_id).await.wakes;
    let new = replacing("doc-7");
    assert_eq!(fixture.start(&new).await, StartOutcome::Replaced { id: old.id });
    assert_eq!(fixture.status(old.id).await, RunStatus::Canceled);
    assert_eq!(fixture.run(parent.run_id).await.wakes, wakes + 1, "the parent is told of the end");
}

pub async fn an_end_of_the_same_batch_frees_a_single_key(fixture: Fixture) {
    let first = single("doc-7");
    fixture.start(&first).await;
    let ended = claim(&fixture, &first).await;
    let second = replacing("doc-7");
    let outcomes = fixture.commit(&[start(&second), succeed(ended, "1")]).await;
    assert_eq!(started(&outcomes[0]), StartOutcome::Created);
    applied(&outcomes[1]);
    assert_eq!(fixture.status(first.id).await, RunStatus::Succeeded);
}

pub async fn a_debounced_start_moves_the_run_that_has_not_begun(fixture: Fixture) {
    let first = debounced("user-9");
    assert_eq!(fixture.start(&first).await, StartOutcome::Created);
    let created_at = fixture.now();
    fixture.advance(MINUTE / 2);
    assert_eq!(fixture.start(&debounced("user-9")).await, held(&first));
    let second = NewRun {
        lane: lane_of("slow", "checkout", "2"),
        priority: Some(Priority::High),
        deadline: Some(StartTime::After(MINUTE * 10)),
        tags: BTreeMap::from([("of".into(), "second".into())]),
        ..moving("user-9", first.id, "2", None)
    };
    assert_eq!(fixture.start(&second).await, StartOutcome::Moved { id: first.id });
    assert!(fixture.store.run(second.id).await.unwrap().is_none());
    let run = fixture.run(first.id).await;
    let now = fixture.now();
    assert_eq!((run.lane, run.input, run.tags), (second.lane, second.input, second.tags));
    assert_eq!((run.available_at, run.created_at, run.priority), (now + MINUTE, created_at, second.priority));
    assert_eq!((run.deadline_at, run.status, run.epoch), (Some(now + MINUTE * 10), RunStatus::Pending, 0));

    // Applied again, because the reply to its commit was lost.
    let third = moving("user-9", first.id, "3", Some(MINUTE * 2));
    for _ in 0..2 {
        assert_eq!(fixture.start(&third).await, StartOutcome::Moved { id: first.id });
    }
    let run = fixture.run(first.id).await;
    assert_eq!((run.available_at, run.deadline_at, run.input.as_str()), (now + MINUTE, None, "3"));
    fixture.advance(MINUTE / 2);
    fixture.start(&moving("user-9", first.id, "4", Some(MINUTE * 3 / 2))).await;
    assert_eq!(fixture.run(first.id).await.available_at, created_at + MINUTE * 3 / 2, "the longest wait");
    fixture.advance(MINUTE / 2 - Duration::from_micros(1));
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(Duration::from_micros(1));
    assert_eq!(fixture.claim_due().await, [first.id]);
}

pub async fn a_debounced_start_leaves_a_run_that_has_begun(fixture: Fixture) {
    let first = debounced("user-9");
    fixture.start(&first).await;
    fixture.advance(MINUTE);
    let claimed = claim(&fixture, &first).await;
    let before = fixture.snapshot(first.id).await;
    let second = moving("user-9", first.id, "2", None);
    assert_eq!(fixture.start(&second).await, StartOutcome::Created, "the run has begun since the first try");
    assert_eq!(fixture.snapshot(first.id).await, before);
    let third = moving("user-9", first.id, "3", None);
    assert_eq!(fixture.start(&third).await, held(&second), "the next try moves the other run");
    // Begun is begun, although the run is pending again.
    applied(&fixture.write(continue_as_new(claimed, "9")).await);
    assert_eq!(fixture.start(&debounced("user-9")).await, held(&second));
    assert_eq!(fixture.run(first.id).await.input, "9");
}

pub async fn debounced_starts_of_one_batch_follow_each_other(fixture: Fixture) {
    let (first, other) = (debounced("user-9"), debounced("user-10"));
    let second = moving("user-9", first.id, "2", None);
    let third = moving("user-9", first.id, "3", None);
    let outcomes = fixture.commit(&[start(&first), start(&second), start(&other), start(&third)]).await;
    let moved = StartOutcome::Moved { id: first.id };
    let expected = [StartOutcome::Created, moved.clone(), StartOutcome::Created, moved];
    assert_eq!(outcomes.iter().map(started).collect::<Vec<_>>(), expected);
    assert_eq!(fixture.run(first.id).await.input, "3", "the last input wins");
}

pub async fn a_run_whose_single_key_another_run_has_is_not_revived(fixture: Fixture) {
    let revive =
        |run: &NewRun| Write::Revive(ReviveWrite { run_id: run.id, attempt: 1, again: Vec::new(), deadline: None });
    let first = single("doc-7");
    fixture.start(&first).await;
    applied(&fixture.write(end(claim(&fixture, &first).await, RunEnd::Failed(error("no luck")))).await);
    let second = single("doc-7");
    fixture.start(&second).await;
    let before = fixture.snapshot(first.id).await;
    let refused = fixture.write(revive(&first)).await;
    assert!(matches!(refused, Outcome::SingleTaken { id } if id == second.id), "{refused:?}");
    assert_eq!(fixture.snapshot(first.id).await, before);

    applied(&fixture.write(succeed(claim(&fixture, &second).await, "1")).await);
    applied(&fixture.write(revive(&first)).await);
    assert_eq!(fixture.start(&single("doc-7")).await, held(&first), "the revived run has its key again");
    outcome::duplicate(&fixture.write(revive(&first)).await);
    fixture.write(Write::Terminate(first.id)).await;

    // A run that expired before it began gets the key of its debounced start back; one that had
    // begun does not.
    let expired = NewRun { deadline: Some(StartTime::After(MINUTE)), ..debounced("user-9") };
    fixture.start(&expired).await;
    fixture.advance(MINUTE * 2);
    fixture.write(Write::Expire { limit: 10, patience: Duration::ZERO }).await;
    let next = debounced("user-9");
    fixture.start(&next).await;
    let refused = fixture.write(revive(&expired)).await;
    assert!(matches!(refused, Outcome::SingleTaken { id } if id == next.id), "{refused:?}");
    fixture.advance(MINUTE);
    applied(&fixture.write(end(claim(&fixture, &next).await, RunEnd::Failed(error("no luck")))).await);
    let last = debounced("user-9");
    fixture.start(&last).await;
    applied(&fixture.write(revive(&next)).await);
    assert_eq!(fixture.start(&debounced("user-9")).await, held(&last));
}

/// Two processes replace, start and end runs of few keys, and start others beside them. No two runs
/// ever have one key, and no batch waits in a circle.
pub async fn concurrent_replacements_leave_one_run_per_key(fixture: Fixture) {
    let second = fixture.second().await;
    let tasks = (0..4_u32).map(|task| {
        let store = if task % 2 == 0 { fixture.store.clone() } else { second.clone() };
        tokio::spawn(async move {
            for round in 0..25 {
                let keys = if (task + round) % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
                let mut writes: Vec<Write> = keys.map(|key| start(&replacing(key))).into();
                writes.push(start(&new_run()));
                writes.push(Write::Claim(claim_request()));
                let mut outcomes = store.commit(&writes).await.expect("commit");
                let claimed = outcome::claimed(outcomes.pop().expect("the outcome of the claim"));
                outcome::created(&outcomes.pop().expect("the outcome of the other start"));
                let ends: Vec<Write> = claimed.runs.iter().map(|run| end_in_family(run.claim, None, false)).collect();
                let signals = claimed.runs.iter().map(|run| Write::Signal(signal(run.claim.run_id, "s", "1")));
                store.commit(&signals.chain(ends).collect::<Vec<_>>()).await.expect("commit");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let open = |runs: &[workflow_sdk::Run]| {
        let keys = runs.iter().filter(|run| !run.status.is_terminal()).filter_map(|run| run.single.clone());
        let mut keys: Vec<_> = keys.collect();
        keys.sort();
        keys
    };
    let runs = fixture.runs().await;
    let mut keys = open(&runs);
    let count = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert!(runs.iter().all(|run| run.available_at < Timestamp::FAR_FUTURE));
}
