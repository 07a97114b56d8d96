//! Makes commits known, on the runtime of those who wait for them, while the writer is busy with the next one.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::faults::failpoint;
use crate::model::{RunId, SignalOutcome, StepKind};
use crate::store::{
    CancelOutcome, DatabaseError, DatabaseErrorKind, EndWrite, EndedRun, Outcome, PauseOutcome, RunEnd, Write,
};

use super::batch::Batch;
use super::quiet::Quiet;
use super::writer::MANY;
use super::{Hub, Message};

/// A batch that was committed.
pub(super) struct Committed {
    pub(super) batch: Batch,
    pub(super) outcomes: Vec<Outcome>,
    /// When the database was asked.
    pub(super) begun: Instant,
}

/// Announces and answers commits, in their order, until the writer has ended; tells it when those who were answered have sent again, if
/// that is of use to it.
pub(super) async fn run(
    mut committed: mpsc::UnboundedReceiver<Committed>,
    hub: Arc<Hub>,
    quiet: Option<Quiet<Message>>,
) {
    while let Some(Committed { batch, outcomes, begun }) = committed.recv().await {
        failpoint("executor.before_answer");
        announce(&hub, &batch.writes, &outcomes);
        let writes = batch.writes.len();
        answer(batch, outcomes, begun);
        if let Some(quiet) = quiet.as_ref().filter(|_| writes >= MANY) {
            quiet.wait_and_tell(|| !committed.is_empty()).await;
        }
    }
}

/// Makes a commit known to those who wait for ended runs, cancels and items of streams. Who waits for due runs has an offer.
fn announce(hub: &Hub, writes: &[Write], outcomes: &[Outcome]) {
    let done = || writes.iter().zip(outcomes).filter(|(_, outcome)| !outcome.changed_nothing()).map(|(write, _)| write);
    // One hint for all that one commit did.
    match done().filter(|write| write.makes_due() || write.ends_runs() || emits(write).is_some()).count() {
        0 => {}
        changed => hub.hint_others(changed),
    }
    hub.emitted(done().filter_map(emits));
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

/// The run to whose streams it appends.
fn emits(write: &Write) -> Option<RunId> {
    match write {
        Write::Attempt(write) if write.row.kind == StepKind::Emitted => Some(write.claim.run_id),
        _ => None,
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
            Outcome::Refused(DatabaseError::new(DatabaseErrorKind::Other, "commit", "the store gave too few outcomes"))
        };
        reply.send(outcomes.next().unwrap_or_else(missing), begun);
    }
}
