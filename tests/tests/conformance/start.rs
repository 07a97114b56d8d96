use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{KeyReuse, NewRun, StartTime};
use workflow_engine::store::{ClaimRequest, RunEnd, StartOutcome, Write};
use workflow_sdk::{RunFilter, RunStatus};
use workflow_tests::builders::{claim_request, end, error, keyed, lane_of, new_run, start, succeed};
use workflow_tests::outcome::{created, started};
use workflow_tests::{Fixture, outcome};

const HOUR: Duration = Duration::from_secs(3600);

pub async fn a_run_is_stored_as_it_was_started(fixture: Fixture) {
    let new = NewRun {
        lane: lane_of("fast lane", "wörk 'flow'", "v\"2\""),
        input: r#"{"b":1,"a":[null]}"#.into(),
        key: Some("order 'ä' \u{1F600}".into()),
        start: StartTime::After(HOUR),
        deadline: Some(StartTime::After(2 * HOUR)),
        tags: BTreeMap::from([("region".into(), "eu".into()), ("empty".into(), String::new())]),
        parent: None,
        depth: 0,
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()),
        ..new_run()
    };
    assert_eq!(fixture.start(&new).await, StartOutcome::Created);

    let run = fixture.run(new.id).await;
    let now = fixture.now();
    assert_eq!(run.id, new.id);
    assert_eq!(run.lane, new.lane);
    assert_eq!(run.status, RunStatus::Pending);
    assert_eq!(run.input, new.input);
    assert_eq!(run.key, new.key);
    assert_eq!((run.tags, run.trace), (new.tags, new.trace));
    assert_eq!(run.available_at, now + HOUR);
    assert_eq!(run.deadline_at, Some(now + 2 * HOUR));
    assert_eq!(run.created_at, now);
    assert_eq!((run.output, run.error, run.worker_id), (None, None, None));
    assert_eq!((run.epoch, run.wakes, run.crashes), (0, 0, 0));
    assert_eq!((run.cancel_requested_at, run.started_at, run.completed_at), (None, None, None));
    assert_eq!(fixture.history(new.id).await, []);
}

pub async fn a_key_that_exists_returns_its_run(fixture: Fixture) {
    let first = keyed("order-42");
    assert_eq!(fixture.start(&first).await, StartOutcome::Created);
    let before = fixture.snapshot(first.id).await;

    let second = NewRun { input: r#"{"other":true}"#.into(), ..keyed("order-42") };
    let existing = StartOutcome::Existing { id: first.id, input: first.input.clone() };
    assert_eq!(fixture.start(&second).await, existing);
    assert_eq!(fixture.store.run(second.id).await.unwrap(), None);
    assert_eq!(fixture.snapshot(first.id).await, before);
}

pub async fn a_start_may_take_the_key_of_a_run_that_failed_or_was_canceled(fixture: Fixture) {
    let again = || NewRun { key_reuse: KeyReuse::AfterFailure, ..keyed("order-42") };
    let holder = async || fixture.store.find("checkout", "order-42").await.unwrap();
    let existing = |run: &NewRun| StartOutcome::Existing { id: run.id, input: run.input.clone() };
    let first = again();
    assert_eq!(fixture.start(&first).await, StartOutcome::Created);
    assert_eq!(fixture.start(&again()).await, existing(&first), "it is pending");
    let failed = end(fixture.claim_only().await.claim, RunEnd::Failed(error("no luck")));
    outcome::applied(&fixture.write(failed).await);
    assert_eq!(fixture.start(&keyed("order-42")).await, existing(&first), "that start takes no key");
    assert_eq!(fixture.start(&first).await, StartOutcome::Created, "a commit whose reply was lost");
    assert_eq!(holder().await, Some(first.id));

    // Beside another start with the key, and one of another workflow.
    let (second, other) = (again(), NewRun { lane: lane_of("default", "refund", "1"), ..again() });
    let outcomes = fixture.commit(&[start(&second), start(&again()), start(&other)]).await;
    created(&outcomes[0]);
    assert_eq!(started(&outcomes[1]), existing(&second));
    created(&outcomes[2]);
    assert_eq!((holder().await, fixture.run(first.id).await.key), (Some(second.id), None));
    assert_eq!(fixture.run(first.id).await.status, RunStatus::Failed);

    fixture.write(Write::Cancel(second.id)).await;
    let third = again();
    assert_eq!(fixture.start(&third).await, StartOutcome::Created, "a pending run is canceled at once");
    outcome::applied(&fixture.write(succeed(fixture.claim_only().await.claim, "1")).await);
    assert_eq!(fixture.start(&again()).await, existing(&third), "it has succeeded");
}

pub async fn the_first_of_two_starts_with_a_key_in_one_batch_creates_the_run(fixture: Fixture) {
    // The first start of the batch has the later id: the order of the batch decides, not that of
    // the ids.
    let later = NewRun { input: "1".into(), ..keyed("order-42") };
    let first = NewRun { input: "2".into(), ..keyed("order-42") };
    let other = keyed("order-43");
    let outcomes = fixture.commit(&[start(&first), start(&other), start(&later)]).await;
    created(&outcomes[0]);
    created(&outcomes[1]);
    assert_eq!(started(&outcomes[2]), StartOutcome::Existing { id: first.id, input: "2".into() });
    assert_eq!(fixture.store.run(later.id).await.unwrap(), None);
    assert_eq!(fixture.run(first.id).await.input, "2");
}

pub async fn concurrent_starts_with_a_key_create_one_run(fixture: Fixture) {
    let second = fixture.second().await;
    let starts = (0..64).map(|number| {
        let store = if number % 2 == 0 { fixture.store.clone() } else { second.clone() };
        tokio::spawn(async move {
            let run = NewRun { input: number.to_string(), ..keyed("order-42") };
            (run.clone(), started(&outcome::one(store.commit(&[start(&run)]).await.expect("commit"))))
        })
    });
    let mut made = Vec::new();
    let mut existing = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        match start.await.unwrap() {
            (run, StartOutcome::Created) => made.push(run),
            (_, StartOutcome::Existing { id, input }) => existing.push((id, input)),
            (_, other) => panic!("no run has continued as new or has a single key: {other:?}"),
        }
    }
    assert_eq!(made.len(), 1, "exactly one start creates the run");
    assert_eq!(existing.len(), 63);
    assert!(existing.iter().all(|(id, input)| *id == made[0].id && *input == made[0].input), "{existing:?}");
    assert_eq!(fixture.store.list(&RunFilter::new()).await.unwrap().len(), 1);
}

pub async fn a_key_belongs_to_its_workflow(fixture: Fixture) {
    let runs = [
        keyed("order-42"),
        NewRun { lane: lane_of("default", "refund", "1"), ..keyed("order-42") },
        NewRun { lane: lane_of("default", "Checkout", "1"), ..keyed("order-42") },
        keyed("Order-42"),
        keyed("order-42 "),
    ];
    for run in &runs {
        assert_eq!(fixture.start(run).await, StartOutcome::Created, "{run:?}");
    }
    // A key is unique per workflow name; queue and version do not matter.
    let moved = NewRun { lane: lane_of("slow", "checkout", "2"), ..keyed("order-42") };
    assert!(matches!(fixture.start(&moved).await, StartOutcome::Existing { id, .. } if id == runs[0].id));
}

pub async fn a_key_stays_taken_after_the_end(fixture: Fixture) {
    let first = keyed("order-42");
    assert_eq!(fixture.start(&first).await, StartOutcome::Created);
    let claim = fixture.claim_only().await.claim;
    outcome::applied(&fixture.write(succeed(claim, "1")).await);
    assert!(matches!(fixture.start(&keyed("order-42")).await, StartOutcome::Existing { id, .. } if id == first.id));
}

pub async fn a_start_applied_again_returns_created(fixture: Fixture) {
    for new in [new_run(), keyed("order-42")] {
        assert_eq!(fixture.start(&new).await, StartOutcome::Created);
        let claim = fixture.claim_only().await.claim;
        let before = fixture.snapshot(new.id).await;
        fixture.advance(Duration::from_secs(1));

        assert_eq!(fixture.start(&new).await, StartOutcome::Created, "the reply to the commit was lost");
        fixture.commit(&[start(&new), start(&new_run()), start(&new)]).await.iter().for_each(created);
        assert_eq!(fixture.claim_due().await.len(), 1, "only the other run is due");
        assert_eq!(fixture.snapshot(new.id).await, before, "the run in progress is unchanged");
        outcome::applied(&fixture.write(succeed(claim, "1")).await);
        assert_eq!(fixture.start(&new).await, StartOutcome::Created);
        assert_eq!(fixture.status(new.id).await, RunStatus::Succeeded);
    }
}

pub async fn a_delay_counts_from_the_commit(fixture: Fixture) {
    let new = NewRun { start: StartTime::After(HOUR), ..new_run() };
    fixture.advance(Duration::from_secs(7));
    fixture.start(&new).await;
    assert_eq!(fixture.next_due().await, Some(fixture.now() + HOUR));

    fixture.advance(HOUR - Duration::from_micros(1));
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(Duration::from_micros(1));
    assert_eq!(fixture.claim_due().await, [new.id]);
}

pub async fn a_start_time_is_kept(fixture: Fixture) {
    let at = fixture.now() + HOUR;
    let new = NewRun { start: StartTime::At(at), ..new_run() };
    fixture.advance(Duration::from_secs(7));
    fixture.start(&new).await;
    assert_eq!(fixture.run(new.id).await.available_at, at);
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(HOUR);
    assert_eq!(fixture.claim_due().await, [new.id]);
}

pub async fn a_start_time_in_the_past_is_due_at_once(fixture: Fixture) {
    let at = fixture.now();
    fixture.advance(HOUR);
    let new = NewRun { start: StartTime::At(at), ..new_run() };
    fixture.start(&new).await;
    assert_eq!(fixture.claim_due().await, [new.id]);
}

pub async fn the_deadline_caps_the_start_time(fixture: Fixture) {
    let deadline = Some(StartTime::After(HOUR));
    let late = NewRun { start: StartTime::After(2 * HOUR), deadline, ..new_run() };
    let early = NewRun { start: StartTime::At(fixture.now() + HOUR / 2), deadline, ..new_run() };
    fixture.commit(&[start(&late), start(&early)]).await;
    assert_eq!(fixture.run(late.id).await.available_at, fixture.now() + HOUR);
    assert_eq!(fixture.run(late.id).await.deadline_at, Some(fixture.now() + HOUR));
    assert_eq!(fixture.run(early.id).await.available_at, fixture.now() + HOUR / 2);
}

pub async fn a_new_run_is_seen_by_every_handle(fixture: Fixture) {
    let second = fixture.second().await;
    let id = fixture.started().await;
    assert_eq!(second.run(id).await.unwrap().unwrap(), fixture.run(id).await);
    let claim = workflow_engine::store::Write::Claim(claim_request());
    let claimed = outcome::claimed(outcome::one(second.commit(&[claim]).await.unwrap()));
    assert_eq!(claimed.runs.len(), 1);
    assert_eq!(fixture.status(id).await, RunStatus::Running);
}

pub async fn processes_that_start_in_a_new_lane_at_once_share_it(fixture: Fixture) {
    let mut stores = vec![fixture.store.clone()];
    for _ in 0..3 {
        stores.push(fixture.second().await);
    }
    let barrier = Arc::new(tokio::sync::Barrier::new(stores.len()));
    let starts = stores.iter().cloned().map(|store| {
        let barrier = Arc::clone(&barrier);
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for version in 0..20 {
                let new = NewRun { lane: lane_of("default", "checkout", &version.to_string()), ..new_run() };
                barrier.wait().await;
                let outcomes = store.commit(&[start(&new)]).await.unwrap();
                created(&outcomes[0]);
                ids.push((new.id, new.lane));
            }
            ids
        })
    });
    for starting in starts.collect::<Vec<_>>() {
        for (id, lane) in starting.await.unwrap() {
            assert_eq!(fixture.run(id).await.lane, lane);
        }
    }
    // Each version is one lane, from which one claim takes the runs of all processes.
    for version in 0..20 {
        let lane = lane_of("default", "checkout", &version.to_string());
        let claimed = fixture.claim(&ClaimRequest { lanes: vec![lane], ..claim_request() }).await.runs;
        assert_eq!(claimed.len(), stores.len());
    }
}

pub async fn a_start_in_a_new_lane_leaves_the_rest_of_its_batch_as_it_is(fixture: Fixture) {
    let known = keyed("known");
    assert_eq!(fixture.start(&known).await, StartOutcome::Created);
    let (again, other) = (NewRun { lane: lane_of("default", "checkout", "new"), ..keyed("known") }, new_run());
    let new = NewRun { lane: lane_of("new", "new", "new"), ..keyed("new") };
    let twice = NewRun { lane: lane_of("newer", "new", "new"), ..keyed("new") };
    let outcomes = fixture.store.commit(&[start(&again), start(&other), start(&new), start(&twice)]).await.unwrap();
    let existing = |run: &NewRun| StartOutcome::Existing { id: run.id, input: run.input.clone() };
    assert_eq!(
        outcomes.iter().map(started).collect::<Vec<_>>(),
        [existing(&known), StartOutcome::Created, StartOutcome::Created, existing(&new)]
    );
    assert_eq!(fixture.run(new.id).await.lane, new.lane);
    assert_eq!(fixture.run(known.id).await.lane, known.lane);
}
