use std::collections::HashSet;
use std::time::Duration;

use workflow_engine::model::{Claim, Lane, NewRun, Retention, StartTime, WorkerId};
use workflow_engine::store::{ClaimRequest, StartOutcome, Write};
use workflow_sdk::{RunId, RunStatus, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, claim_by, claim_request, lane, lane_of, new_run, park, park_write, signal, start, succeed,
    succeeded,
};
use workflow_tests::{Fixture, outcome};

const SECOND: Duration = Duration::from_secs(1);

pub async fn a_claim_takes_the_run_and_returns_all_of_it(fixture: Fixture) {
    let deadline = fixture.now() + 1000 * SECOND;
    let trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".parse().unwrap());
    let new = NewRun { deadline: Some(StartTime::At(deadline)), trace, ..new_run() };
    let created_at = fixture.now();
    fixture.start(&new).await;
    fixture.advance(SECOND);

    let request = claim_request();
    let claimed = fixture.claim(&request).await;
    let now = fixture.now();
    assert_eq!(claimed.now, now);
    let [run] = claimed.runs.as_slice() else { panic!("one run: {claimed:?}") };
    assert_eq!(run.claim, Claim { run_id: new.id, epoch: 1 });
    assert_eq!((&run.lane, run.trace), (&new.lane, new.trace));
    assert_eq!(run.input, new.input);
    assert_eq!((run.wakes, run.crashes, run.cancel_requested), (0, 0, false));
    assert_eq!(run.deadline_at, Some(deadline));
    assert_eq!((run.created_at, run.started_at), (created_at, now));
    assert_eq!(run.lease_until, now + LEASE);
    assert_eq!(run.error, None);

    let stored = fixture.run(new.id).await;
    assert_eq!(stored.status, RunStatus::Running);
    assert_eq!(stored.worker_id, Some(request.worker));
    assert_eq!(stored.epoch, 1);
    assert_eq!(stored.available_at, now + LEASE);
    assert_eq!(stored.started_at, Some(now));
    assert_eq!(fixture.claim_due().await, [], "the run is claimed");
}

pub async fn claims_return_inputs_of_every_size(fixture: Fixture) {
    let input = |quotes: usize| format!("[\"{}\"]", "\\\"".repeat(quotes));
    let busy = fixture.held().await;
    // The claim comes alone and in one batch with a step. SQLite reads inputs of more than 16 KiB
    // with a statement of their own.
    for beside in [None, Some(attempt(busy, succeeded("page", 1, "1")))] {
        let sizes = [0, 8190, 8191, 200_000, 1, 8192, 500_000];
        let runs: Vec<NewRun> = sizes.map(|quotes| NewRun { input: input(quotes), ..new_run() }).into();
        fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
        let claim = Write::Claim(claim_by(WorkerId::generate(), 100));
        let writes: Vec<Write> = beside.into_iter().chain([claim]).collect();
        let mut outcomes = fixture.commit(&writes).await;
        let claimed = outcome::claimed(outcomes.pop().expect("one outcome per write"));
        let found: Vec<_> = claimed.runs.iter().map(|run| (run.claim.run_id, run.input.len())).collect();
        let expected: Vec<_> = runs.iter().map(|run| (run.id, run.input.len())).collect();
        assert_eq!(found, expected);
        assert!(claimed.runs.iter().zip(&runs).all(|(found, run)| found.input == run.input));
    }
}

pub async fn a_claim_takes_the_longest_due_run_of_each_lane_in_turns(fixture: Fixture) {
    let lanes = [lane(), lane_of("default", "refund", "1"), lane_of("slow", "checkout", "2")];
    // The order of the delays is neither the order of the ids nor that of the lanes. The last lane
    // has been due for longest, and has the most runs.
    let delays = [(0, [8, 6, 9, 7].as_slice()), (1, &[5]), (2, &[3, 0, 4, 2, 1])];
    let mut due = [const { Vec::new() }; 3];
    for (lane, delays) in delays {
        for delay in delays {
            let run = NewRun { lane: lanes[lane].clone(), start: StartTime::After(SECOND * *delay), ..new_run() };
            fixture.start(&run).await;
            due[lane].push((*delay, run.id));
        }
        due[lane].sort();
    }
    fixture.advance(60 * SECOND);

    // The lanes of each claim in their order, and from which lane each of its runs comes.
    for (order, turns) in [
        ([0, 1, 2], [0].as_slice()),
        ([1, 2, 0], &[1, 2, 0, 2]),
        ([0, 1, 2], &[0, 2]),
        ([2, 0, 1], &[2, 0, 2]),
        ([2, 0, 1], &[]),
    ] {
        let request = ClaimRequest {
            lanes: order.map(|number| lanes[number].clone()).into(),
            ..claim_by(WorkerId::generate(), turns.len().max(1) as u32)
        };
        let expected: HashSet<RunId> = turns.iter().map(|lane| due[*lane].remove(0).1).collect();
        let found: HashSet<RunId> = fixture.claim(&request).await.runs.iter().map(|run| run.claim.run_id).collect();
        assert_eq!(found, expected, "{order:?} {turns:?}");
    }
}

/// Claims come alone, and in one batch with a step, as they do under load.
pub async fn many_due_runs_of_one_lane_do_not_delay_another_lane(fixture: Fixture) {
    let (flood, other) = (lane(), lane_of("default", "refund", "1"));
    let of_other = || NewRun { lane: other.clone(), ..new_run() };
    let worker = WorkerId::generate();
    let _lease = fixture
        .store
        .open_lease(worker, &[flood.clone(), other.clone()], &Retention::default())
        .await
        .expect("a lease");
    let claim =
        |lanes: [&Lane; 2], limit| ClaimRequest { lanes: lanes.map(Lane::clone).into(), ..claim_by(worker, limit) };
    let (busy, parked) = (of_other(), of_other());
    fixture.commit(&[start(&busy), start(&parked)]).await;
    let held = fixture.claim(&claim([&flood, &other], 2)).await.runs;
    let claim_of = |id| held.iter().map(|run| run.claim).find(|claim| claim.run_id == id).expect("it was due");
    let busy = claim_of(busy.id);
    outcome::applied(&fixture.write(park(claim_of(parked.id), Timestamp::FAR_FUTURE)).await);
    fixture.started_many(100).await;

    let mut steps = 0;
    for beside in [false, true] {
        let mut claim = async |lanes, limit| {
            let step = attempt(busy, succeeded(&format!("page#{steps}"), steps + 1, "1"));
            steps += i64::from(beside);
            let writes = [step, Write::Claim(claim(lanes, limit))];
            let outcome = fixture.commit(&writes[usize::from(!beside)..]).await.pop().expect("the claim's outcome");
            outcome::claimed(outcome).runs.into_iter().map(|run| (run.lane, run.claim)).collect::<Vec<_>>()
        };
        // Full claims of the flood come before, so that later ones resume where they ended.
        for _ in 0..2 {
            let lanes: Vec<_> = claim([&other, &flood], 3).await.into_iter().map(|(lane, _)| lane).collect();
            assert_eq!(lanes, [(); 3].map(|()| flood.clone()));
        }
        // A new run and a woken one take the turn of their lane.
        let new = of_other();
        fixture.start(&new).await;
        let claimed = claim([&other, &flood], 1).await;
        assert_eq!(claimed.iter().map(|(_, claim)| claim.run_id).collect::<Vec<_>>(), [new.id]);
        fixture.advance(SECOND);
        fixture.write(Write::Signal(signal(parked.id, "paid", "1"))).await;
        let claimed = claim([&flood, &other], 2).await;
        let woken = claimed.iter().find(|(_, claim)| claim.run_id == parked.id).expect("the woken run is claimed");
        assert!(claimed.len() == 2 && claimed.iter().any(|(lane, _)| *lane == flood), "{claimed:?}");
        let park = park_write(woken.1, 1 + i64::from(beside), Timestamp::FAR_FUTURE);
        outcome::applied(&fixture.write(Write::Park(park)).await);
    }
}

pub async fn a_claim_with_spare_capacity_finds_every_due_run(fixture: Fixture) {
    let worker = WorkerId::generate();
    let _lease = fixture.store.open_lease(worker, &[lane()], &Retention::default()).await.expect("a lease");
    fixture.started().await;
    let busy = fixture.claim(&claim_by(worker, 1)).await.runs[0].claim;
    let due_after = |seconds: u32| NewRun { start: StartTime::At(fixture.now() + SECOND * seconds), ..new_run() };
    let (first, second, later) = (due_after(2), due_after(3), due_after(1));
    fixture.commit(&[start(&first), start(&second)]).await;
    fixture.advance(5 * SECOND);
    // Each claim of the worker comes in one batch with a step, as it does under load.
    let mut found = Vec::new();
    for (number, limit) in [1, 5].into_iter().enumerate() {
        let step = attempt(busy, succeeded(&format!("page#{number}"), number as i64 + 1, "1"));
        let outcomes = fixture.commit(&[step, Write::Claim(claim_by(worker, limit))]).await;
        let claimed = outcome::claimed(outcomes.into_iter().next_back().expect("one outcome per write"));
        found.push(claimed.runs.iter().map(|run| run.claim.run_id).collect::<HashSet<_>>());
        if number == 0 {
            // This run has been due for longer than the claimed one, but is inserted after it.
            fixture.start(&later).await;
        }
    }
    assert_eq!(found, [HashSet::from([first.id]), HashSet::from([second.id, later.id])]);
}

pub async fn resumed_runs_are_not_starved_by_new_ones(fixture: Fixture) {
    let old = fixture.held().await;
    outcome::applied(&fixture.write(park(old, fixture.now() + SECOND)).await);
    fixture.advance(2 * SECOND);
    fixture.started_many(50).await;
    let next = fixture.claim(&claim_by(WorkerId::generate(), 1)).await;
    assert_eq!(next.runs[0].claim.run_id, old.run_id, "the resumed run has been due for longer");
}

pub async fn a_lapsed_lease_is_taken_over_before_runs_that_have_not_begun(fixture: Fixture) {
    let held = fixture.held().await;
    let mut waiting = Vec::new();
    for delay in [LEASE + SECOND, LEASE - SECOND] {
        let run = NewRun { start: StartTime::After(delay), ..new_run() };
        fixture.start(&run).await;
        waiting.push(run.id);
    }
    let paused = fixture.held().await;
    fixture.write(Write::Pause(paused.run_id)).await;
    let turns = [held.run_id, waiting[1], waiting[0]];
    let earliest = fixture.now() + LEASE - SECOND;
    assert_eq!(fixture.next_due().await, Some(earliest));
    fixture.advance(2 * LEASE);
    for (turn, at) in turns.into_iter().zip([earliest, earliest, earliest + 2 * SECOND]) {
        assert_eq!(fixture.next_due().await, Some(at));
        let next = fixture.claim(&claim_by(WorkerId::generate(), 1)).await;
        let claimed: Vec<RunId> = next.runs.iter().map(|run| run.claim.run_id).collect();
        assert_eq!(claimed, [turn], "one run per claim");
    }
    assert_eq!(fixture.claim_due().await, [], "the paused run is not claimed");
}

pub async fn only_registered_lanes_are_claimed(fixture: Fixture) {
    let foreign = [
        lane_of("Default", "checkout", "1"),
        lane_of("slow", "checkout", "1"),
        lane_of("default", "check", "1"),
        lane_of("default", "checkout", "2"),
        lane_of("default", "checkout", "1 "),
        lane_of("checkout", "default", "1"),
    ];
    for lane in &foreign {
        fixture.start(&NewRun { lane: lane.clone(), ..new_run() }).await;
    }
    assert_eq!(fixture.claim_due().await, []);
    assert_eq!(fixture.next_due().await, None);
    for lane in foreign {
        let request = ClaimRequest { lanes: vec![lane.clone()], ..claim_request() };
        let claimed = fixture.claim(&request).await.runs;
        assert_eq!(claimed.iter().map(|run| &run.lane).collect::<Vec<_>>(), [&lane]);
    }
}

pub async fn no_lanes_claim_nothing(fixture: Fixture) {
    fixture.started().await;
    let claimed = fixture.claim(&ClaimRequest { lanes: vec![], ..claim_request() }).await;
    assert!(claimed.runs.is_empty());
    assert_eq!(claimed.now, fixture.now());
    assert_eq!(fixture.store.next_due(&[]).await.unwrap().at, None);
}

pub async fn the_limit_is_respected(fixture: Fixture) {
    let ids = fixture.started_many(10).await;
    assert_eq!(fixture.claim(&claim_by(WorkerId::generate(), 0)).await.runs.len(), 0);
    assert_eq!(fixture.claim(&claim_by(WorkerId::generate(), 3)).await.runs.len(), 3);
    let mut running = 0;
    for id in ids {
        running += usize::from(fixture.status(id).await == RunStatus::Running);
    }
    assert_eq!(running, 3, "only the returned runs are claimed");
    assert_eq!(fixture.claim(&claim_by(WorkerId::generate(), 100)).await.runs.len(), 7);
}

pub async fn the_limit_holds_over_many_lanes(fixture: Fixture) {
    let lanes: Vec<_> = (0..20).map(|number| lane_of("default", &format!("workflow-{number}"), "1")).collect();
    for lane in &lanes {
        let runs: Vec<_> = (0..5).map(|_| start(&NewRun { lane: lane.clone(), ..new_run() })).collect();
        fixture.commit(&runs).await;
    }
    let mut seen = HashSet::new();
    for expected in [30, 30, 30, 10, 0] {
        let request = ClaimRequest { lanes: lanes.clone(), ..claim_by(WorkerId::generate(), 30) };
        let runs = fixture.claim(&request).await.runs;
        assert_eq!(runs.len(), expected);
        assert!(runs.iter().all(|run| seen.insert(run.claim.run_id)), "each run once");
    }
}

pub async fn a_lane_given_twice_counts_once(fixture: Fixture) {
    fixture.started_many(4).await;
    let request = ClaimRequest { lanes: vec![lane(), lane()], ..claim_by(WorkerId::generate(), 3) };
    let runs = fixture.claim(&request).await.runs;
    let distinct: HashSet<_> = runs.iter().map(|run| run.claim.run_id).collect();
    assert_eq!((runs.len(), distinct.len()), (3, 3));
    assert!(runs.iter().all(|run| run.claim.epoch == 1));
}

pub async fn nothing_is_claimed_before_it_is_due(fixture: Fixture) {
    let delayed = NewRun { start: StartTime::After(10 * SECOND), ..new_run() };
    fixture.start(&delayed).await;
    let parked = fixture.held().await;
    outcome::applied(&fixture.write(park(parked, fixture.now() + 5 * SECOND)).await);

    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(5 * SECOND);
    assert_eq!(fixture.claim_due().await, [parked.run_id]);
    fixture.advance(5 * SECOND);
    assert_eq!(fixture.claim_due().await, [delayed.id]);
}

pub async fn an_ended_run_is_not_claimed(fixture: Fixture) {
    let claim = fixture.held().await;
    let canceled = NewRun { start: StartTime::After(SECOND), ..new_run() };
    fixture.commit(&[succeed(claim, "1"), start(&canceled), Write::Cancel(canceled.id)]).await;
    fixture.advance(1000 * LEASE);
    assert_eq!(fixture.claim_due().await, []);
    assert_eq!(fixture.next_due().await, None);
}

pub async fn two_claims_of_one_batch_share_the_runs(fixture: Fixture) {
    fixture.started_many(10).await;
    let (first, second) = (claim_by(WorkerId::generate(), 6), claim_by(WorkerId::generate(), 6));
    let outcomes = fixture.commit(&[Write::Claim(first.clone()), Write::Claim(second.clone())]).await;
    let mut seen = HashSet::new();
    let mut sizes = Vec::new();
    for (outcome, worker) in outcomes.into_iter().zip([first.worker, second.worker]) {
        let runs = outcome::claimed(outcome).runs;
        sizes.push(runs.len());
        for run in runs {
            assert!(seen.insert(run.claim.run_id), "each run once");
            assert_eq!(fixture.run(run.claim.run_id).await.worker_id, Some(worker));
        }
    }
    assert_eq!(sizes, [6, 4]);
}

/// The claim of an idle worker waits and joins the batch that starts a run.
pub async fn a_claim_takes_runs_started_in_its_batch(fixture: Fixture) {
    let keyed = |key: &str| NewRun { key: Some(key.into()), ..new_run() };
    let older = keyed("older");
    fixture.start(&older).await;
    fixture.advance(SECOND);
    let (new, known) = (keyed("new"), keyed("older"));
    let later = NewRun { start: StartTime::After(SECOND), ..new_run() };
    let foreign = NewRun { lane: lane_of("slow", "checkout", "1"), ..new_run() };
    let deadline = NewRun { deadline: Some(StartTime::After(9 * SECOND)), ..new_run() };
    let request = claim_request();
    let starts = [&new, &known, &later, &foreign, &deadline];
    let writes: Vec<Write> =
        starts.into_iter().map(start).chain(std::iter::once(Write::Claim(request.clone()))).collect();
    let mut outcomes = fixture.commit(&writes).await;

    let claimed = outcome::claimed(outcomes.pop().expect("the claim's outcome"));
    let now = fixture.now();
    assert_eq!(claimed.now, now);
    let mut ids: Vec<RunId> = claimed.runs.iter().map(|run| run.claim.run_id).collect();
    assert_eq!(ids.remove(0), older.id, "the longest due run comes first");
    assert_eq!(HashSet::from_iter(ids), HashSet::from([new.id, deadline.id]));
    for run in claimed.runs {
        assert_eq!(
            (run.claim.epoch, run.wakes, run.crashes, run.attempt, run.generation, run.depth),
            (1, 0, 0, 1, 0, 0)
        );
        assert_eq!((run.lane, run.input, run.parent_run_id), (new.lane.clone(), new.input.clone(), None));
        let created_at = if run.claim.run_id == older.id { now - SECOND } else { now };
        assert_eq!((run.created_at, run.started_at, run.lease_until), (created_at, now, now + LEASE));
        assert_eq!(run.deadline_at, (run.claim.run_id == deadline.id).then_some(now + 9 * SECOND));
        let stored = fixture.run(run.claim.run_id).await;
        assert_eq!((stored.status, stored.worker_id, stored.epoch), (RunStatus::Running, Some(request.worker), 1));
        assert_eq!((stored.available_at, stored.started_at), (now + LEASE, Some(now)));
    }
    let existing = outcome::started(&outcomes.remove(1));
    assert!(matches!(existing, StartOutcome::Existing { id, .. } if id == older.id), "{existing:?}");
    outcomes.iter().for_each(outcome::created);
    for run in [&later, &foreign] {
        assert_eq!(fixture.status(run.id).await, RunStatus::Pending);
    }
    assert_eq!(fixture.claim_due().await, []);
}

pub async fn runs_started_in_the_batch_do_not_starve_older_due_runs(fixture: Fixture) {
    let older = new_run();
    fixture.start(&older).await;
    fixture.advance(SECOND);
    let new = new_run();
    let writes = [start(&new), Write::Claim(claim_by(WorkerId::generate(), 1))];
    let claimed = outcome::claimed(fixture.commit(&writes).await.pop().expect("the claim's outcome"));
    let ids: Vec<RunId> = claimed.runs.iter().map(|run| run.claim.run_id).collect();
    assert_eq!(ids, [older.id]);
}

pub async fn concurrent_claimers_never_share_a_run(fixture: Fixture) {
    let mut ids: Vec<RunId> = fixture.started_many(200).await;
    let second = fixture.second().await;
    let claimers = (0..8).map(|number| {
        let store = if number % 2 == 0 { fixture.store.clone() } else { second.clone() };
        let worker = WorkerId::generate();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            let mut empty = 0;
            // A claim skips rows that another transaction has locked, so one empty answer does not
            // mean that no run is left.
            while empty < 3 {
                let write = Write::Claim(claim_by(worker, 7));
                let runs = outcome::claimed(outcome::one(store.commit(&[write]).await.expect("commit"))).runs;
                empty = if runs.is_empty() { empty + 1 } else { 0 };
                mine.extend(runs.into_iter().map(|run| (run.claim, worker)));
            }
            mine
        })
    });
    let mut held = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        held.extend(claimer.await.unwrap());
    }
    held.extend(fixture.claim(&claim_request()).await.runs.iter().map(|run| (run.claim, WorkerId::generate())));
    assert!(held.iter().all(|(claim, _)| claim.epoch == 1), "claimed once each");
    let mut claimed: Vec<RunId> = held.iter().map(|(claim, _)| claim.run_id).collect();
    claimed.sort();
    ids.sort();
    assert_eq!(claimed, ids, "every run exactly once");
}

pub async fn now_is_the_time_of_the_clock(fixture: Fixture) {
    assert_eq!(fixture.store.now().await.unwrap(), fixture.now());
    fixture.advance(SECOND);
    assert_eq!(fixture.store.now().await.unwrap(), fixture.now());
}

pub async fn next_due_is_the_earliest_of_the_lanes(fixture: Fixture) {
    assert_eq!(fixture.next_due().await, None);
    let start_of = fixture.now();
    let other = lane_of("default", "refund", "1");
    let soon = NewRun { lane: other.clone(), start: StartTime::After(SECOND), ..new_run() };
    let later = NewRun { start: StartTime::After(60 * SECOND), ..new_run() };
    fixture.commit(&[start(&later), start(&soon)]).await;
    assert_eq!(fixture.next_due().await, Some(start_of + 60 * SECOND), "only this lane counts");
    let both = [lane(), other];
    assert_eq!(fixture.store.next_due(&both).await.unwrap().at, Some(start_of + SECOND));

    fixture.advance(10 * SECOND);
    assert_eq!(fixture.store.next_due(&both).await.unwrap().at, Some(start_of + SECOND), "it may lie in the past");

    // A claimed run is due at the end of its lease, because then another worker may take it over.
    let held = fixture.held().await;
    assert_eq!(fixture.next_due().await, Some(fixture.now() + LEASE));
    outcome::applied(&fixture.write(park(held, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.next_due().await, Some(start_of + 60 * SECOND));
}
