//! Data with good defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use workflow_engine::model::{Claim, Effect, KeyReuse, Lane, NewRun, NewSignal, SignalKey, StartTime, WorkerId};
use workflow_engine::store::{
    AttemptWrite, ClaimRequest, ContinueWrite, CrashesWrite, EndWrite, ParkWrite, RunEnd, Write,
};
use workflow_sdk::{
    AttemptStatus, ErrorKind, OnParentEnd, Parent, RunId, StepAttempt, StepKind, StoredError, Timestamp,
};

/// The lease of [`claim_request`].
pub const LEASE: Duration = Duration::from_secs(30);

/// The time at which the clock of every fixture begins.
pub const CLOCK_START: Timestamp = Timestamp::from_micros(1_800_000_000_123_456);

/// Returns the lane of queue `default`, workflow `checkout`, version `1`.
#[must_use]
pub fn lane() -> Lane {
    lane_of("default", "checkout", "1")
}

/// Returns a lane of these names.
#[must_use]
pub fn lane_of(queue: &str, workflow: &str, version: &str) -> Lane {
    Lane { queue: queue.into(), workflow: workflow.into(), version: version.into() }
}

/// Returns a run in [`lane`] that starts at once.
#[must_use]
pub fn new_run() -> NewRun {
    NewRun {
        gate: None,
        id: RunId::generate(),
        lane: lane(),
        // A number that no log has by itself: see `log_secrets.rs`.
        input: r#"{"order":42000000000042}"#.into(),
        key: None,
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 0,
        trace: None,
    }
}

/// Returns [`new_run`] with this key.
#[must_use]
pub fn keyed(key: &str) -> NewRun {
    NewRun { key: Some(key.into()), ..new_run() }
}

/// Returns a request of a new worker for at most 1000 runs of [`lane`].
#[must_use]
pub fn claim_request() -> ClaimRequest {
    claim_by(WorkerId::generate(), 1000)
}

/// Returns a request for at most `limit` runs of [`lane`].
#[must_use]
pub fn claim_by(worker: WorkerId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        worker,
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit,
        lease: LEASE,
    }
}

/// Returns attempt 1 of a step, begun at [`CLOCK_START`].
#[must_use]
pub fn begun(step_key: &str) -> StepAttempt {
    StepAttempt {
        step_key: step_key.into(),
        attempt: 1,
        kind: StepKind::Step,
        status: AttemptStatus::Running,
        position: None,
        output: None,
        error: None,
        epoch: 0,
        started_at: CLOCK_START,
        completed_at: None,
    }
}

/// Returns attempt 1 of a step that succeeded at this position with this output.
#[must_use]
pub fn succeeded(step_key: &str, position: i64, output: &str) -> StepAttempt {
    StepAttempt {
        status: AttemptStatus::Succeeded,
        position: Some(position),
        output: Some(output.into()),
        completed_at: Some(CLOCK_START + Duration::from_millis(5)),
        ..begun(step_key)
    }
}

/// Returns an attempt of a step that failed and will be followed by another.
#[must_use]
pub fn failed(step_key: &str, attempt: i64) -> StepAttempt {
    StepAttempt {
        attempt,
        status: AttemptStatus::Failed,
        error: Some(error("no luck")),
        completed_at: Some(CLOCK_START + Duration::from_millis(5)),
        ..begun(step_key)
    }
}

/// Returns an error of the author's code.
#[must_use]
pub fn error(message: &str) -> StoredError {
    StoredError::new(ErrorKind::Application, message)
}

/// Returns the write of a step attempt.
#[must_use]
pub fn attempt(claim: Claim, row: StepAttempt) -> Write {
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::None })
}

/// Returns the write that ends a run.
#[must_use]
pub fn end(claim: Claim, end: RunEnd) -> Write {
    Write::End(EndWrite { claim, parent_run_id: None, has_children: false, has_event_waits: false, end })
}

/// Returns the write that ends a run with this output.
#[must_use]
pub fn succeed(claim: Claim, output: &str) -> Write {
    end(claim, RunEnd::Succeeded(output.into()))
}

/// Returns an ordinary park until then, by a writer that has seen this `wakes`.
#[must_use]
pub fn park_write(claim: Claim, wakes: i64, until: Timestamp) -> ParkWrite {
    ParkWrite { claim, wakes, until, until_deadline: true, error: None, reset_crashes: false }
}

/// Returns the write of [`park_write`] that knows of no wake.
#[must_use]
pub fn park(claim: Claim, until: Timestamp) -> Write {
    Write::Park(park_write(claim, 0, until))
}

/// Returns the write that sets so many crashes of a run, which is not driven alone.
#[must_use]
pub fn crashes(claim: Claim, crashes: i64, lone_crashes: i64) -> Write {
    Write::Crashes(CrashesWrite { claim, crashes, lone_crashes, is_alone: false })
}

/// Returns the write with which a run continues as new.
#[must_use]
pub fn continue_as_new(claim: Claim, input: &str) -> Write {
    Write::Continue(ContinueWrite { claim, input: input.into() })
}

/// Returns the write that starts such a run.
#[must_use]
pub fn start(run: &NewRun) -> Write {
    Write::Start(run.clone())
}

/// Returns a signal that is sent once.
#[must_use]
pub fn signal(run_id: RunId, name: &str, payload: &str) -> NewSignal {
    NewSignal { run_id, name: name.into(), payload: payload.into(), key: SignalKey::generate(), limit: None }
}

/// Returns the write by which a step consumes the signal with this number.
#[must_use]
pub fn consume(claim: Claim, row: StepAttempt, seq: i64) -> Write {
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::Consume { seq } })
}

/// Returns [`new_run`] as the child of a step of this run.
#[must_use]
pub fn child_of(run_id: RunId, step_key: &str, on_end: OnParentEnd) -> NewRun {
    NewRun { parent: Some(Parent { run_id, step_key: step_key.into(), on_end }), depth: 1, ..new_run() }
}

/// Returns the write by which a step starts its child.
#[must_use]
pub fn begin_child(claim: Claim, child: &NewRun) -> Write {
    let step_key = child.parent.as_ref().map(|parent| parent.step_key.as_str()).unwrap_or_default();
    let row = StepAttempt { kind: StepKind::Child, output: Some("{}".into()), ..begun(step_key) };
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::Start(Box::new(child.clone())) })
}

/// Returns the write that ends a run which has this parent, or may have children.
#[must_use]
pub fn end_in_family(claim: Claim, parent_run_id: Option<RunId>, has_children: bool) -> Write {
    Write::End(EndWrite {
        claim,
        parent_run_id,
        has_children,
        has_event_waits: false,
        end: RunEnd::Succeeded("1".into()),
    })
}
