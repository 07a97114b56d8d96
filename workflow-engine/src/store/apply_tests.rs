#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::FutureExt;

use crate::model::{
    AttemptStatus, Claim, Effect, ErrorKind, KeyReuse, Lane, NewRun, NewSignal, Parent, RunId, RunStatus, SignalKey,
    StartTime, StepAttempt, StepKind, StoredError, Timestamp, WorkerId,
};

use super::{
    AttemptRow, AttemptWrite, BatchTarget, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal, ContinueWrite,
    CrashesWrite, EndWrite, Fence, ForkWrite, Locks, MissingOutcome, Outcome, ParkWrite, RetryWrite, ReviveWrite,
    RunEnd, RunState, SortedBatch, StartOutcome, Write, apply, apply_within,
};

/// A target that stores nothing: it notes each call, and answers that claims hold and that runs are
/// new.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
    /// A bug: it answers one run less than it was asked to insert.
    forgets_a_run: bool,
    /// The runs whose claims do not hold.
    ended: Vec<RunId>,
}

impl Recorder {
    fn note<T>(&mut self, call: impl Into<String>, answer: T) -> Result<T, MissingOutcome> {
        self.calls.push(call.into());
        Ok(answer)
    }
}

impl BatchTarget for Recorder {
    type Error = MissingOutcome;

    async fn free_keys(&mut self, runs: &[&NewRun]) -> Result<(), MissingOutcome> {
        self.note(format!("free {} keys", runs.len()), ())
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, MissingOutcome> {
        let names: Vec<&str> = runs.iter().map(|run| run.lane.workflow.as_str()).collect();
        let answered = runs.len() - usize::from(self.forgets_a_run);
        self.note(format!("insert runs {}", names.join(" ")), vec![StartOutcome::Created; answered])
    }

    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, MissingOutcome> {
        let call = format!("lock {} claims, {} changed runs", locks.claims.len(), locks.changed.len());
        let ended = self.ended.iter().map(|run| Ok((*run, Some((1, RunStatus::Succeeded)))));
        let fence = Fence::of::<MissingOutcome>(ended)?;
        self.note(call, fence)
    }

    async fn mark_fork(&mut self, _: RunId) -> Result<bool, MissingOutcome> {
        self.note("mark fork", true)
    }

    async fn copy_history(&mut self, _: RunId, _: RunId, _: i64) -> Result<(), MissingOutcome> {
        self.note("copy history", ())
    }

    async fn consume_signals(&mut self, consumed: &[ConsumedSignal<'_>]) -> Result<(), MissingOutcome> {
        self.note(format!("consume {} signals", consumed.len()), ())
    }

    async fn find_final(&mut self, attempts: &[&AttemptWrite]) -> Result<HashSet<usize>, MissingOutcome> {
        self.note(format!("find final ones of {} attempts", attempts.len()), HashSet::new())
    }

    async fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> Result<(), MissingOutcome> {
        self.note(format!("record {} attempts", rows.len()), ())
    }

    async fn insert_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, MissingOutcome> {
        let new = signals.iter().map(|signal| (signal.run_id, signal.key.as_str().to_owned())).collect();
        self.note(format!("insert {} signals", signals.len()), new)
    }

    async fn find_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, MissingOutcome> {
        self.note(format!("find {} signals", signals.len()), HashSet::new())
    }

    async fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<(), MissingOutcome> {
        self.note(format!("wake {} runs", runs.len()), ())
    }

    async fn finish_claims(&mut self, ends: &[&EndWrite], parks: &[&ParkWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("finish {} ends, {} parks", ends.len(), parks.len()), ())
    }

    async fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("continue {} runs", continues.len()), ())
    }

    async fn retry_runs(&mut self, retries: &[&RetryWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("retry {} runs", retries.len()), ())
    }

    async fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> Result<(), MissingOutcome> {
        self.note(format!("reset {} outcomes", steps.len()), ())
    }

    async fn revive_run(&mut self, _: &ReviveWrite) -> Result<bool, MissingOutcome> {
        self.note("revive run", true)
    }

    async fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("set crashes of {} runs", writes.len()), ())
    }

    async fn pause_run(&mut self, _: RunId) -> Result<Option<RunStatus>, MissingOutcome> {
        self.note("pause run", Some(RunStatus::Pending))
    }

    async fn resume_run(&mut self, _: RunId) -> Result<bool, MissingOutcome> {
        self.note("resume run", true)
    }

    async fn read_state(&mut self, _: RunId) -> Result<Option<RunState>, MissingOutcome> {
        self.note("read state", None)
    }

    async fn release_unknown_claims(&mut self, _: WorkerId, _: &[Claim]) -> Result<u64, MissingOutcome> {
        self.note("release unknown claims", 0)
    }

    async fn cancel_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, MissingOutcome> {
        let canceled = runs.iter().map(|run| (*run, CancelOutcome::Canceled)).collect();
        self.note(format!("cancel {} runs", runs.len()), canceled)
    }

    async fn terminate_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, MissingOutcome> {
        let canceled = runs.iter().map(|run| (*run, CancelOutcome::Canceled)).collect();
        self.note(format!("terminate {} runs", runs.len()), canceled)
    }

    async fn expire_runs(&mut self, _: u32, _: Duration, _: &StoredError) -> Result<Vec<RunId>, MissingOutcome> {
        self.note("expire runs", vec![RunId::generate()])
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, MissingOutcome> {
        self.note(format!("find parents of {} runs", runs.len()), Vec::new())
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<(), MissingOutcome> {
        self.note(format!("cancel children of {} runs", parents.len()), ())
    }

    async fn claim_runs(&mut self, _: &ClaimRequest) -> Result<Claimed, MissingOutcome> {
        self.note("claim runs", Claimed { runs: Vec::new(), now: Timestamp::from_micros(0) })
    }
}

fn run(workflow: &str) -> NewRun {
    NewRun {
        id: RunId::generate(),
        lane: Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() },
        input: "null".into(),
        key: None,
        key_reuse: KeyReuse::Never,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None::<Parent>,
        depth: 0,
    }
}

fn claim() -> Claim {
    Claim { run_id: RunId::generate(), epoch: 1 }
}

fn attempt(claim: Claim, effect: Effect) -> Write {
    let row = StepAttempt {
        step_key: "page".into(),
        attempt: 1,
        kind: StepKind::Step,
        status: AttemptStatus::Succeeded,
        position: Some(1),
        output: Some("1".into()),
        error: None,
        epoch: 1,
        started_at: Timestamp::from_micros(1),
        completed_at: None,
    };
    Write::Attempt(AttemptWrite { claim, row, effect })
}

fn end(claim: Claim) -> Write {
    let end = RunEnd::Succeeded("1".into());
    Write::End(EndWrite { claim, parent_run_id: Some(RunId::generate()), has_children: true, end })
}

fn park(claim: Claim) -> Write {
    let until = Timestamp::from_micros(1);
    Write::Park(ParkWrite { claim, wakes: 0, until, until_deadline: false, error: None, reset_crashes: false })
}

fn signal(run_id: RunId) -> Write {
    let key = SignalKey::Given("key".into());
    Write::Signal(NewSignal { run_id, name: "paid".into(), payload: "1".into(), key, limit: None })
}

/// One write of each kind, the kind that is applied last first.
fn every_kind() -> Vec<Write> {
    let error = StoredError::new(ErrorKind::Deadline, "no luck");
    let lanes = vec![run("checkout").lane];
    let worker = WorkerId::generate();
    let again = vec!["page".to_owned()];
    let until = Timestamp::from_micros(1);
    let fork = ForkWrite { source: RunId::generate(), new: run("fork"), before: 7, kept: None };
    vec![
        Write::Claim(ClaimRequest { worker, lanes, limit: 1, lease: Duration::from_secs(30) }),
        Write::Expire { limit: 1, patience: Duration::ZERO },
        Write::Terminate(RunId::generate()),
        Write::Cancel(RunId::generate()),
        Write::ReleaseUnknown { worker, known: Vec::new() },
        Write::Resume(RunId::generate()),
        Write::Pause(RunId::generate()),
        Write::Revive(ReviveWrite { run_id: RunId::generate(), attempt: 1, again: again.clone(), deadline: None }),
        Write::Retry(RetryWrite { claim: claim(), until, again, error }),
        Write::Continue(ContinueWrite { claim: claim(), input: "1".into() }),
        park(claim()),
        end(claim()),
        signal(RunId::generate()),
        Write::Crashes(CrashesWrite { claim: claim(), crashes: 1, lone_crashes: 0, is_alone: true }),
        attempt(claim(), Effect::Start(Box::new(run("child")))),
        attempt(claim(), Effect::Consume { seq: 1 }),
        Write::Fork(Box::new(fork)),
        Write::Start(run("start")),
    ]
}

fn apply_to(target: &mut Recorder, writes: &[Write]) -> Result<Vec<Outcome>, MissingOutcome> {
    apply(target, writes).now_or_never().unwrap()
}

#[test]
fn a_batch_of_every_kind_is_applied_in_the_order_of_the_contract() {
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &every_kind()).unwrap();
    let expected = [
        "insert runs start fork",
        "lock 8 claims, 15 changed runs",
        "mark fork",
        "copy history",
        "find final ones of 1 attempts",
        "insert runs child",
        "consume 1 signals",
        "record 2 attempts",
        "set crashes of 1 runs",
        "insert 1 signals",
        "wake 1 runs",
        "finish 1 ends, 1 parks",
        "continue 1 runs",
        "retry 1 runs",
        "reset 1 outcomes",
        "revive run",
        "reset 1 outcomes",
        "pause run",
        "resume run",
        "release unknown claims",
        "cancel 1 runs",
        "terminate 1 runs",
        "expire runs",
        "find parents of 3 runs",
        "wake 1 runs",
        "cancel children of 4 runs",
        "claim runs",
    ];
    assert_eq!(target.calls, expected);
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    let operators = ["claimed", "changed", "canceled", "canceled", "changed", "resumed", "paused"];
    let claims = ["applied", "applied", "applied", "applied", "applied", "signaled", "applied", "applied", "applied"];
    assert_eq!(names, [&operators[..], &claims[..], &["started", "started"]].concat());
}

#[test]
fn nothing_is_called_for_kinds_that_a_batch_does_not_have() {
    let mut target = Recorder::default();
    assert!(apply_to(&mut target, &[]).unwrap().is_empty());
    assert!(target.calls.is_empty(), "{:?}", target.calls);
    apply_to(&mut target, &[Write::Start(run("start"))]).unwrap();
    assert_eq!(target.calls, ["insert runs start"]);
}

#[test]
fn a_write_without_an_outcome_is_an_error() {
    let mut target = Recorder { forgets_a_run: true, ..Recorder::default() };
    let writes = [Write::Pause(RunId::generate()), Write::Start(run("first")), Write::Start(run("second"))];
    let error = apply_to(&mut target, &writes).unwrap_err();
    assert_eq!(error.to_string(), "write 2 of 3 has no outcome");
}

#[test]
fn a_claim_is_released_once() {
    let claim = claim();
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &[park(claim), end(claim), park(claim)]).unwrap();
    assert_eq!(outcomes.iter().map(Outcome::name).collect::<Vec<_>>(), ["duplicate", "applied", "duplicate"]);
    assert!(target.calls.contains(&"finish 1 ends, 0 parks".to_owned()), "{:?}", target.calls);
}

#[test]
fn a_write_that_the_fence_refuses_has_no_effect() {
    let claim = claim();
    let mut target = Recorder { ended: vec![claim.run_id], ..Recorder::default() };
    let child = Effect::Start(Box::new(run("child")));
    let writes = [attempt(claim, child), attempt(claim, Effect::Consume { seq: 1 }), end(claim), signal(claim.run_id)];
    let outcomes = apply_to(&mut target, &writes).unwrap();
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(names, ["duplicate", "duplicate", "duplicate", "signaled"]);
    assert_eq!(target.calls, ["lock 1 claims, 2 changed runs"]);
}

#[test]
fn a_second_cancel_of_a_run_finds_it_ended() {
    let run = RunId::generate();
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &[Write::Cancel(run), Write::Cancel(run)]).unwrap();
    let ended = CancelOutcome::Ended(RunStatus::Canceled);
    assert!(matches!(outcomes[0], Outcome::Canceled(CancelOutcome::Canceled)), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Canceled(outcome) if outcome == ended), "{outcomes:?}");
    assert_eq!(target.calls[1], "cancel 1 runs");
}

#[test]
fn a_write_of_the_application_locks_its_run_and_no_relatives() {
    let cancel = [Write::Cancel(RunId::generate())];
    let locks = Locks::of(&SortedBatch::of(&cancel)).without_families();
    assert!(locks.changed.len() == 1 && locks.parents_unknown.is_empty() && locks.with_children.is_empty());
    let mut target = Recorder::default();
    let outcome = apply_within(&mut target, &signal(RunId::generate())).now_or_never().unwrap();
    assert_eq!(outcome.unwrap().name(), "signaled");
    assert_eq!(target.calls, ["lock 1 claims, 1 changed runs", "insert 1 signals", "wake 1 runs"]);
}
