//! The end of a drive: its last write, and the report of it.

use workflow_engine::executor::{PendingOutcome, SendPermit};
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::observe::Event;
use workflow_engine::replay::Interruption;
use workflow_engine::store::{ClaimedRun, EndWrite, Outcome, Write};
use workflow_sdk::{DatabaseError, DatabaseErrorKind, ErrorKind, StoredError};

use super::events::{LastChange, name_of};
use super::exit::{Exit, run_end};
use crate::shared::{Shared, Slot};

/// The last write of a drive, with the records that belong to it.
#[derive(Debug)]
pub(super) struct LastWrite {
    /// Committed together with the write, before it.
    pub(super) records: Vec<Write>,
    pub(super) write: Box<Write>,
    /// Whether the run may have children.
    pub(super) has_children: bool,
    /// The interruption that was delivered to the workflow.
    pub(super) interruption: Option<Interruption>,
    /// Whether the drive gives the run back unfinished.
    pub(super) is_release: bool,
}

impl LastWrite {
    /// Returns the write of a run that ends without a drive.
    pub(super) fn alone(write: Box<Write>) -> Self {
        Self { records: Vec::new(), write, has_children: true, interruption: None, is_release: false }
    }
}

/// Commits the last write of a drive.
///
/// The permit is free as soon as the write is queued. So the commit that ends this run may claim
/// the next one, which would otherwise need a later commit.
pub(super) async fn finish(shared: &Shared, run: &ClaimedRun, last: LastWrite, slot: Slot) {
    let LastWrite { records, write, has_children, interruption, is_release } = last;
    let (before, after) = failpoints_of(&write);
    let mut change = LastChange::of(&write, is_release);
    // An executor that has stopped ends the worker.
    let Ok(room) = shared.executor().reserve().await else { return };
    let answer = match failpoint_error(before) {
        Ok(()) => {
            let answers = send(room, records, *write);
            drop(slot.permit);
            last_answer(answers).await
        }
        Err(fault) => Ok(Some(Outcome::Refused(fault.into()))),
    };
    let outcome = match answer {
        Ok(outcome) => outcome,
        Err(error) => {
            let end = refused_end(run, &error, has_children, interruption);
            change = LastChange::of(&end, false);
            shared.executor().commit(end).await.ok()
        }
    };
    shared.queues.note_free(&run.lane.queue);
    let observers = shared.client.observers();
    match outcome {
        Some(Outcome::Applied | Outcome::Duplicate) => {
            if let Some(change) = change {
                let now = shared.clock.now();
                change.count(shared.executor().statistics(), run, now);
                change.send(observers, run, now);
            }
        }
        // The run has another owner, and nothing is to be done.
        Some(Outcome::Lost) => observers.event(&Event::LeaseLost { run: name_of(run), worker: shared.id }),
        Some(Outcome::Refused(error)) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "the end of a run was not written; a worker takes the run up again when its lease ends"
        ),
        _ => {}
    }
    failpoint(after);
}

/// Queues the records, and the last write behind them.
fn send(room: SendPermit<'_>, mut records: Vec<Write>, write: Write) -> Vec<PendingOutcome> {
    if records.is_empty() {
        return vec![room.send(write)];
    }
    records.push(write);
    room.send_together(records)
}

/// Returns the outcome of the last of these writes; `None` if the executor has stopped.
///
/// # Errors
/// The refusal of one of the writes, which the database would repeat.
async fn last_answer(answers: Vec<PendingOutcome>) -> Result<Option<Outcome>, DatabaseError> {
    let mut left = answers.len();
    for answer in answers {
        left -= 1;
        match answer.await {
            Ok(Outcome::Applied | Outcome::Duplicate | Outcome::Called(_)) if left > 0 => {}
            Ok(Outcome::Refused(error)) if error.kind == DatabaseErrorKind::Invalid => return Err(error),
            outcome => return Ok(outcome.ok()),
        }
    }
    Ok(None)
}

/// Returns the end of a run of which the database refuses a record or the last write. Waits that
/// were left by a refused record are still there.
fn refused_end(
    run: &ClaimedRun,
    error: &DatabaseError,
    has_children: bool,
    interruption: Option<Interruption>,
) -> Write {
    let ClaimedRun { claim, parent_run_id, .. } = *run;
    let error = StoredError::from_error(ErrorKind::Refused, error).fatal();
    let end = run_end(Err(error), interruption);
    Write::End(EndWrite { claim, parent_run_id, has_children, has_event_waits: true, end })
}

fn failpoints_of(write: &Write) -> (&'static str, &'static str) {
    match write {
        Write::Park(_) => ("park.before_commit", "park.after_commit"),
        Write::Continue(_) => ("continue.before_commit", "continue.after_commit"),
        Write::Retry(_) => ("retry.before_commit", "retry.after_commit"),
        _ => ("end.before_commit", "end.after_commit"),
    }
}

/// Logs the problems of a drive that its last write does not show.
pub(super) fn report(shared: &Shared, run: &ClaimedRun, exit: &Exit) {
    let run_id = run.claim.run_id;
    let workflow = &run.lane.workflow;
    match exit {
        Exit::Lost => {
            shared.client.observers().event(&Event::LeaseLost { run: name_of(run), worker: shared.id });
        }
        Exit::GraceOver(by) => tracing::warn!(%run_id, workflow, ?by, "the grace for the clean-up of a run is over"),
        // The next read may succeed without help.
        Exit::Unreadable(error) if error.kind.is_transient() => {
            let error = error as &dyn std::error::Error;
            tracing::warn!(%run_id, workflow, error, "run parked: its history was not read, trying again");
        }
        // A run without crashes waits for a run that is driven alone, of which the log has a
        // warning.
        Exit::HeldBack(_) if run.crashes > 1 && shared.held_back.take_due() => tracing::warn!(
            %run_id,
            workflow,
            crashes = run.crashes,
            "the run is held back, and maybe others: its workers died while it was in flight, so few such runs begin \
             together"
        ),
        Exit::HeldBack(_) => {
            tracing::debug!(%run_id, workflow, crashes = run.crashes, "run waits: it may be what kills its workers")
        }
        Exit::Blocked => tracing::debug!(%run_id, workflow, "run waits: it blocks a thread of this worker"),
        _ => {}
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use futures::poll;

    use workflow_engine::store::RunEnd;

    use super::*;
    use crate::quarantine::tests::claimed_run;
    use crate::shutdown::all_ended;

    #[tokio::test]
    async fn the_permit_is_free_before_the_end_is_committed_and_a_shutdown_waits_for_the_commit() {
        let shared = Shared::idle(1).await;
        let permit = Arc::clone(&shared.permits).try_acquire_owned().unwrap();
        let slot = Slot { permit: Some(permit), _drive: shared.drives.subscribe() };
        let run = claimed_run(0);
        let claim = run.claim;
        let end =
            EndWrite { claim, parent_run_id: None, has_children: false, has_event_waits: false, end: RunEnd::Canceled };

        let mut finish = Box::pin(finish(&shared, &run, LastWrite::alone(Box::new(Write::End(end))), slot));
        let mut ended = Box::pin(all_ended(&shared));
        assert_eq!(shared.permits.available_permits(), 0);
        // The executor of this store runs on this thread, so it cannot answer before the next
        // await.
        assert!(poll!(&mut finish).is_pending());
        assert_eq!(shared.permits.available_permits(), 1);
        assert_eq!(poll!(&mut ended), Poll::Pending);
        finish.await;
        assert_eq!(poll!(&mut ended), Poll::Ready(()));
    }
}
