use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{Claim, NewRun, OnParentEnd, Retention, SignalOutcome, StartTime, WorkerId};
use workflow_engine::store::{
    DeleteOutcome, DeleteWrite, ForkWrite, Outcome, RetryWrite, ReviveWrite, RunEnd, StartOutcome, Store, Write,
};
use workflow_sdk::{CancelOutcome, DatabaseErrorKind, PauseOutcome, ResumeOutcome, RunFilter, RunId, RunStatus};
use workflow_tests::builders::{
    LEASE, attempt, begin_child, begun, child_of, claim_by, claim_request, continue_as_new, end, end_in_family, error,
    failed, keyed, new_run, park, signal, start, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, changed, claimed, created, duplicate, lost, signaled, started};
use workflow_tests::{Fixture, builders};

pub async fn an_empty_batch_is_accepted(fixture: Fixture) {
    assert!(fixture.commit(&[]).await.is_empty());
}

pub async fn bad_writes_do_not_affect_their_neighbours(fixture: Fixture) {
    const RUNS: usize = 100;
    let (stale, current) = fixture.taken_over().await;
    let key = keyed("taken");
    fixture.start(&key).await;
    let done = fixture.claim_only().await.claim;
    fixture.started_many(RUNS).await;
    let claims: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    assert_eq!(claims.len(), RUNS);
    let untouched = fixture.snapshot(stale.run_id).await;

    let mut writes = Vec::new();
    let mut new = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let run = new_run();
        new.push(run.id);
        writes.push(attempt(*claim, succeeded("a", 1, &number.to_string())));
        writes.push(start(&run));
        writes.push(attempt(*claim, failed("b", 1)));
        writes.push(attempt(*claim, begun("c")));
        writes.push(match number % 3 {
            0 => succeed(*claim, &number.to_string()),
            1 => park(*claim, fixture.now() + LEASE),
            _ => end(*claim, RunEnd::Failed(error(&number.to_string()))),
        });
    }
    applied(&fixture.write(succeed(done, "1")).await);
    // The bad writes stand among the good ones: writes of a stale claim, of an unknown run and of
    // an ended run, and a start whose key is taken.
    let unknown = Claim { run_id: RunId::generate(), epoch: 1 };
    let mut bad = vec![
        (attempt(stale, succeeded("a", 0, "9")), "lost"),
        (succeed(stale, "9"), "lost"),
        (park(stale, fixture.now()), "lost"),
        (attempt(unknown, succeeded("a", 0, "9")), "lost"),
        (attempt(done, succeeded("late", 0, "9")), "duplicate"),
        (succeed(done, "9"), "duplicate"),
        (park(done, fixture.now()), "duplicate"),
        (Write::Start(keyed("taken")), "existing"),
        (Write::Cancel(RunId::generate()), "unknown"),
    ];
    let mut expected: Vec<&str> =
        writes.iter().map(|write| if matches!(write, Write::Start(_)) { "created" } else { "applied" }).collect();
    while let Some((write, word)) = bad.pop() {
        let at = 37 + 50 * bad.len();
        writes.insert(at, write);
        expected.insert(at, word);
    }
    assert!(writes.len() > 500);

    let outcomes = fixture.commit(&writes).await;
    let found: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Applied => "applied",
            Outcome::Duplicate => "duplicate",
            Outcome::Lost => "lost",
            Outcome::Started(StartOutcome::Created) => "created",
            Outcome::Started(StartOutcome::Existing { .. }) => "existing",
            Outcome::Canceled(CancelOutcome::Unknown) => "unknown",
            _ => "something else",
        })
        .collect();
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "write {index}: {:?}", writes[index]);
    }
    for (number, claim) in claims.iter().enumerate() {
        let (run, history) = fixture.snapshot(claim.run_id).await;
        let status = [RunStatus::Succeeded, RunStatus::Parked, RunStatus::Failed][number % 3];
        assert_eq!(run.status, status);
        assert_eq!(run.output, (number % 3 == 0).then(|| number.to_string()));
        assert_eq!(run.error.map(|error| error.message), (number % 3 == 2).then(|| number.to_string()));
        let keys: Vec<&str> = history.iter().map(|row| row.step_key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }
    for id in new {
        assert_eq!(fixture.status(id).await, RunStatus::Pending);
    }
    assert_eq!(fixture.snapshot(stale.run_id).await, untouched);
    applied(&fixture.write(succeed(current, "1")).await);
}

pub async fn outcomes_are_in_the_order_of_the_writes(fixture: Fixture) {
    fixture.started_many(20).await;
    let claims: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    // The writes have the reverse order of their kinds and ids. Each outcome tells which write it
    // belongs to.
    let mut writes =
        vec![Write::Claim(claim_by(WorkerId::generate(), 2)), Write::Expire { limit: 5, patience: Duration::ZERO }];
    let mut expected = vec!["claimed", "changed"];
    for (number, claim) in claims.iter().enumerate().rev() {
        let stale = Claim { epoch: 9, ..*claim };
        let next = match number % 5 {
            0 => [(succeed(*claim, "1"), "applied"), (succeed(stale, "1"), "lost")],
            1 => [(Write::Cancel(RunId::generate()), "canceled"), (attempt(stale, begun("a")), "lost")],
            2 => [(start(&new_run()), "started"), (attempt(*claim, begun("a")), "applied")],
            3 => [(park(stale, fixture.now()), "lost"), (park(*claim, builders::CLOCK_START + 9 * LEASE), "applied")],
            _ => [(Write::Cancel(claim.run_id), "canceled"), (start(&new_run()), "started")],
        };
        for (write, word) in next {
            writes.push(write);
            expected.push(word);
        }
    }
    let outcomes = fixture.commit(&writes).await;
    let found: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(found, expected);
}

pub async fn a_batch_applied_again_changes_nothing(fixture: Fixture) {
    fixture.started_many(8).await;
    let worker = WorkerId::generate();
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 100)).await.runs.iter().map(|run| run.claim).collect();
    let (new, with_key, to_cancel) = (new_run(), keyed("order-42"), new_run());
    let writes = [
        start(&new),
        start(&with_key),
        start(&to_cancel),
        attempt(claims[0], begun("a")),
        attempt(claims[0], succeeded("a", 0, "1")),
        attempt(claims[1], failed("a", 1)),
        attempt(claims[2], begun("a")),
        attempt(claims[3], succeeded("a", 0, "1")),
        succeed(claims[3], "1"),
        end(claims[4], RunEnd::Failed(error("no luck"))),
        park(claims[5], fixture.now() + LEASE),
        Write::Cancel(to_cancel.id),
        Write::Cancel(claims[6].run_id),
        Write::ReleaseUnknown { worker, known: claims[..7].to_vec() },
    ];
    let first = fixture.commit(&writes).await;
    first[..3].iter().for_each(created);
    first[3..11].iter().for_each(applied);
    assert_eq!(canceled(&first[11]), CancelOutcome::Canceled);
    assert_eq!(canceled(&first[12]), CancelOutcome::Requested);
    assert_eq!(changed(&first[13]), 1);

    let runs = fixture.runs().await;
    let mut histories = Vec::new();
    for run in &runs {
        histories.push(fixture.history(run.id).await);
    }

    // The reply to the commit was lost, and some time passed before the second try.
    fixture.advance(Duration::from_secs(1));
    let second = fixture.commit(&writes).await;
    second[..3].iter().for_each(created);
    for outcome in [7, 8, 9, 10] {
        duplicate(&second[outcome]);
    }
    for outcome in [3, 4, 5, 6] {
        // Writing an attempt again may count as applied or as a duplicate.
        assert!(matches!(second[outcome], Outcome::Applied | Outcome::Duplicate), "{:?}", second[outcome]);
    }
    assert_eq!(canceled(&second[11]), CancelOutcome::Ended(RunStatus::Canceled));
    assert_eq!(canceled(&second[12]), CancelOutcome::Requested);
    assert_eq!(changed(&second[13]), 0);

    let after = fixture.runs().await;
    for (before, after) in runs.iter().zip(&after) {
        // A repeated cancel request may count as another wake, because a needless wake does no
        // harm.
        let after = if before.id == claims[6].run_id {
            let mut after = after.clone();
            after.wakes = before.wakes;
            after
        } else {
            after.clone()
        };
        assert_eq!(*before, after);
    }
    assert_eq!(runs.len(), after.len());
    for (run, history) in runs.iter().zip(histories) {
        assert_eq!(fixture.history(run.id).await, history);
    }
}

pub async fn attempts_come_before_the_end(fixture: Fixture) {
    for end_first in [false, true] {
        for finish in [0, 1] {
            let claim = fixture.held().await;
            let last = [succeed(claim, "1"), park(claim, fixture.now() + LEASE * 100)][finish].clone();
            let mut writes = [attempt(claim, succeeded("a", 0, "1")), last];
            if end_first {
                writes.reverse();
            }
            fixture.commit(&writes).await.iter().for_each(applied);
            assert_eq!(fixture.history(claim.run_id).await.len(), 1);
            assert_eq!(fixture.status(claim.run_id).await, [RunStatus::Succeeded, RunStatus::Parked][finish]);
        }
    }
}

pub async fn a_start_comes_before_its_cancel(fixture: Fixture) {
    for cancel_first in [false, true] {
        let run = new_run();
        let mut writes = [start(&run), Write::Cancel(run.id)];
        if cancel_first {
            writes.reverse();
        }
        let outcomes = fixture.commit(&writes).await;
        created(&outcomes[usize::from(cancel_first)]);
        assert_eq!(canceled(&outcomes[usize::from(!cancel_first)]), CancelOutcome::Canceled);
        assert_eq!(fixture.status(run.id).await, RunStatus::Canceled);
    }
}

pub async fn a_start_comes_before_the_claim(fixture: Fixture) {
    let (run, dropped) = (new_run(), new_run());
    let mut outcomes =
        fixture.commit(&[Write::Claim(claim_request()), Write::Cancel(dropped.id), start(&run), start(&dropped)]).await;
    let runs = claimed(outcomes.remove(0)).runs;
    assert_eq!(runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(), [run.id]);
    applied(&fixture.write(succeed(runs[0].claim, "1")).await);
}

pub async fn a_park_comes_before_the_claim(fixture: Fixture) {
    let claim = fixture.held().await;
    let mut outcomes = fixture.commit(&[Write::Claim(claim_request()), park(claim, fixture.now())]).await;
    applied(&outcomes[1]);
    let runs = claimed(outcomes.remove(0)).runs;
    assert_eq!(runs[0].claim, Claim { epoch: 2, ..claim });
    assert_eq!(runs[0].crashes, 0);
    lost(&fixture.write(succeed(claim, "1")).await);
}

/// Each kind sees the effects of the kinds before it, although the batch has them in reverse order.
pub async fn one_batch_of_every_kind_keeps_the_order_of_the_contract(fixture: Fixture) {
    const HOUR: Duration = Duration::from_secs(3600);
    let (worker, other) = (WorkerId::generate(), WorkerId::generate());
    fixture.started_many(6).await;
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 6)).await.runs.iter().map(|run| run.claim).collect();
    let [parent, ended, parked, continued, retried, failing] = claims[..] else { panic!("six claims") };
    fixture.started().await;
    let unknown = fixture.claim(&claim_by(other, 1)).await.runs[0].claim;
    let deadline = Some(StartTime::After(LEASE / 2));
    let late = NewRun { deadline, ..child_of(parent.run_id, "late", OnParentEnd::Cancel) };
    applied(&fixture.write(begin_child(parent, &late)).await);
    applied(&fixture.write(park(parent, fixture.now() + HOUR)).await);
    applied(&fixture.write(end(failing, RunEnd::Failed(error("no luck")))).await);
    fixture.advance(LEASE / 2);

    let (new, forked) = (keyed("key"), keyed("fork"));
    let child = child_of(ended.run_id, "child", OnParentEnd::Cancel);
    let fork = ForkWrite { source: failing.run_id, new: forked.clone(), before: 1, kept: None };
    let revive = ReviveWrite { run_id: failing.run_id, attempt: 1, again: Vec::new(), deadline: None };
    let retry = RetryWrite { claim: retried, until: fixture.now(), again: Vec::new(), error: error("no luck") };
    let (writes, expected): (Vec<Write>, Vec<&str>) = [
        (Write::Claim(claim_by(worker, 1000)), "claimed"),
        (Write::Delete(DeleteWrite { run_id: new.id, ended_before: None }), "deleted"),
        (Write::Expire { limit: 5, patience: Duration::ZERO }, "changed"),
        (Write::Terminate(forked.id), "canceled"),
        (Write::Cancel(new.id), "canceled"),
        (Write::ReleaseUnknown { worker: other, known: Vec::new() }, "changed"),
        (Write::Resume(failing.run_id), "resumed"),
        (Write::Pause(failing.run_id), "paused"),
        (Write::Revive(revive), "applied"),
        (Write::Retry(retry), "applied"),
        (continue_as_new(continued, "2"), "applied"),
        (park(parked, fixture.now()), "applied"),
        (end_in_family(ended, None, true), "applied"),
        (Write::Signal(signal(new.id, "paid", "1")), "signaled"),
        (begin_child(ended, &child), "applied"),
        (Write::Fork(Box::new(fork)), "started"),
        (start(&new), "started"),
    ]
    .into_iter()
    .unzip();
    let mut outcomes = fixture.commit(&writes).await;
    assert_eq!(outcomes.iter().map(Outcome::name).collect::<Vec<_>>(), expected);
    assert!(matches!(outcomes[1], Outcome::Deleted(DeleteOutcome::Deleted(_))), "{:?}", outcomes[1]);
    assert_eq!(changed(&outcomes[2]), 1, "the run past its deadline");
    for index in [3, 4] {
        assert_eq!(canceled(&outcomes[index]), CancelOutcome::Canceled, "a run of the same batch");
    }
    assert_eq!(changed(&outcomes[5]), 1, "the claim of the other worker");
    assert!(matches!(outcomes[6], Outcome::Resumed(ResumeOutcome::Resumed)), "{:?}", outcomes[6]);
    assert!(matches!(outcomes[7], Outcome::Paused(PauseOutcome::Paused)), "{:?}", outcomes[7]);
    assert_eq!(signaled(&outcomes[13]), SignalOutcome::Accepted);
    outcomes[15..].iter().for_each(created);

    // The parent is due because its child has expired.
    let due = [parent, parked, continued, retried, failing, unknown].map(|claim| claim.run_id);
    let found: BTreeSet<RunId> = claimed(outcomes.remove(0)).runs.iter().map(|run| run.claim.run_id).collect();
    assert_eq!(found, BTreeSet::from(due));
    assert_eq!(fixture.status(child.id).await, RunStatus::Canceled, "the child ends with its parent");
    assert_eq!(fixture.status(late.id).await, RunStatus::Failed);
    assert!(fixture.store.run(new.id).await.unwrap().is_none(), "the run that was canceled is deleted");
}

/// Two processes repeatedly write the same runs in opposite orders.
pub async fn concurrent_batches_of_the_same_runs_do_not_deadlock(fixture: Fixture) {
    let second = fixture.second().await;
    fixture.started_many(40).await;
    let claims: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let keys: Vec<String> = (0..40).map(|number| format!("order-{number}")).collect();
    let writer = |store: &Arc<dyn Store>, reversed: bool| {
        let (store, mut claims, mut keys) = (store.clone(), claims.clone(), keys.clone());
        if reversed {
            claims.reverse();
            keys.reverse();
        }
        tokio::spawn(async move {
            for round in 0..25 {
                let mut writes = Vec::new();
                for (claim, key) in claims.iter().zip(&keys) {
                    writes.push(attempt(*claim, begun(&format!("step-{round}-{reversed}"))));
                    writes.push(start(&keyed(&format!("{key}-{round}"))));
                    writes.push(Write::Cancel(claim.run_id));
                }
                for outcome in store.commit(&writes).await.expect("no deadlock") {
                    match outcome {
                        Outcome::Applied | Outcome::Started(_) => {}
                        Outcome::Canceled(outcome) => assert_eq!(outcome, CancelOutcome::Requested),
                        other => panic!("{other:?}"),
                    }
                }
            }
        })
    };
    let (one, other) = (writer(&fixture.store, false), writer(&second, true));
    one.await.unwrap();
    other.await.unwrap();
    for claim in claims {
        assert_eq!(fixture.history(claim.run_id).await.len(), 50);
    }
    assert_eq!(fixture.store.list(&RunFilter::new().page_size(1000)).await.unwrap().len(), 1000);
    let keyed = RunFilter::new().key_prefix("order-7-").page_size(1000);
    assert_eq!(fixture.store.list(&keyed).await.unwrap().len(), 25, "one run per key");
}

pub async fn a_closed_store_is_unreachable(fixture: Fixture) {
    let handle = fixture.second().await;
    handle.close().await;
    let id = fixture.started().await;
    let kinds = [
        handle.commit(&[start(&new_run())]).await.err().map(|error| error.kind),
        handle.run(id).await.err().map(|error| error.kind),
        handle.list(&RunFilter::new()).await.err().map(|error| error.kind),
        handle.history(id).await.err().map(|error| error.kind),
        handle.ended(&[id]).await.err().map(|error| error.kind),
        handle.next_due(&[builders::lane()]).await.err().map(|error| error.kind),
        handle.open_lease(WorkerId::generate(), &[], &Retention::default()).await.err().map(|error| error.kind),
    ];
    assert_eq!(kinds, [Some(DatabaseErrorKind::Unreachable); 7]);
    assert!(
        matches!(started(&fixture.write(start(&new_run())).await), StartOutcome::Created),
        "other handles stay open"
    );
}
