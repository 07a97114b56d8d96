//! Makes commits known, on the runtime of those who wait for them, while the writer is busy with the next one.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use crate::backend::{
    BackendError, BackendErrorKind, CancelOutcome, EndWrite, EndedRun, Outcome, PauseOutcome, RunEnd, Write,
};
use crate::model::{SignalOutcome, StepKind};

use super::Hub;
use super::writer::Batch;

/// A batch that was committed.
pub(super) struct Committed {
    pub(super) batch: Batch,
    pub(super) outcomes: Vec<Outcome>,
    /// When the database was asked.
    pub(super) begun: Instant,
}

/// Announces and answers commits, in their order, until the writer has ended.
pub(super) async fn run(mut committed: mpsc::UnboundedReceiver<Committed>, hub: Arc<Hub>) {
    while let Some(Committed { batch, outcomes, begun }) = committed.recv().await {
        announce(&hub, &batch.writes, &outcomes);
        answer(batch, outcomes, begun);
    }
}

/// Makes a commit known to those who wait for due runs, ended runs, cancels and items of streams.
fn announce(hub: &Hub, writes: &[Write], outcomes: &[Outcome]) {
    if writes.iter().any(Write::makes_due) {
        hub.runs_due();
    }
    if writes.iter().any(Write::ends_runs) {
        hub.runs_ended();
    }
    hub.emitted(writes.iter().filter_map(|write| match write {
        Write::Attempt(write) if write.row.kind == StepKind::Emitted => Some(write.claim.run_id),
        _ => None,
    }));
    for (write, outcome) in writes.iter().zip(outcomes) {
        match (write, outcome) {
            (Write::End(write), Outcome::Applied) => {
                hub.tell_ended(write.claim.run_id, || ended_run(write));
                if let Some(parent) = write.parent_run_id {
                    hub.woken(parent);
                }
            }
            (Write::Signal(signal), Outcome::Signaled(SignalOutcome::Accepted)) => hub.woken(signal.run_id),
            (Write::Cancel(run), Outcome::Canceled(CancelOutcome::Requested)) => hub.cancel_requested(*run),
            // Whatever the answer: it may be that of a commit whose first reply was lost.
            (Write::Terminate(run), _) => {
                hub.terminated(*run);
                hub.changed();
            }
            (Write::Cancel(_), _) => hub.changed(),
            (Write::Pause(run), Outcome::Paused(PauseOutcome::Requested)) => hub.pause_requested(*run),
            (Write::Expire { .. }, Outcome::Changed(1..)) => hub.changed(),
            _ => {}
        }
    }
}

fn ended_run(write: &EndWrite) -> EndedRun {
    let (output, error) = match &write.end {
        RunEnd::Succeeded(output) => (Some(output.clone()), None),
        RunEnd::Failed(error) => (None, Some(error.clone())),
        RunEnd::Canceled => (None, None),
    };
    EndedRun { id: write.claim.run_id, status: write.end.status(), output, error }
}

/// Answers each sender.
fn answer(batch: Batch, outcomes: Vec<Outcome>, begun: Instant) {
    let mut outcomes = outcomes.into_iter();
    for reply in batch.replies {
        let missing = || {
            Outcome::Refused(BackendError::new(BackendErrorKind::Other, "commit", "the backend gave too few outcomes"))
        };
        reply.send(outcomes.next().unwrap_or_else(missing), begun);
    }
}
