//! The end of a drive: its last write, and the report of it.

use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::observe::Event;
use workflow_engine::store::{ClaimedRun, Outcome, Write};

use super::events::{LastChange, name_of};
use super::exit::Exit;
use crate::shared::{Shared, Slot};

/// Commits the last write of a drive.
///
/// The permit is free as soon as the write is queued. So the commit that ends this run may claim
/// the next one, which would otherwise need a later commit.
pub(super) async fn finish(shared: &Shared, run: &ClaimedRun, write: Box<Write>, is_release: bool, slot: Slot) {
    let (before, after) = failpoints_of(&write);
    let change = LastChange::of(&write, is_release);
    // An executor that has stopped ends the worker.
    let Ok(room) = shared.executor().reserve().await else { return };
    let outcome = match failpoint_error(before) {
        Ok(()) => {
            let outcome = room.send(*write);
            drop(slot.permit);
            outcome.await
        }
        Err(fault) => Ok(Outcome::Refused(fault.into())),
    };
    shared.queues.note_free(&run.lane.queue);
    let observers = shared.client.observers();
    match outcome {
        Ok(Outcome::Applied | Outcome::Duplicate) => {
            if let Some(change) = change {
                let now = shared.clock.now();
                change.count(shared.executor().statistics(), run, now);
                change.send(observers, run, now);
            }
        }
        // The run has another owner, and nothing is to be done.
        Ok(Outcome::Lost) => observers.event(&Event::LeaseLost { run: name_of(run), worker: shared.id }),
        Ok(Outcome::Refused(error)) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "the end of a run was not written; a worker takes the run up again when its lease ends"
        ),
        _ => {}
    }
    failpoint(after);
}

fn failpoints_of(write: &Write) -> (&'static str, &'static str) {
    match write {
        Write::Park(_) => ("park.before_commit", "park.after_commit"),
        Write::Continue(_) => ("continue.before_commit", "continue.after_commit"),
        Write::Retry(_) => ("retry.before_commit", "retry.after_commit"),
        _ => ("end.before_commit", "end.after_commit"),
    }
}

/// Tells the troubles of a drive that its last write does not show.
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
        // A run without crashes waits for one that is driven alone, and that one was warned of.
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
    use workflow_engine::store::{EndWrite, RunEnd};

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

        let mut finish = Box::pin(finish(&shared, &run, Box::new(Write::End(end)), false, slot));
        let mut ended = Box::pin(all_ended(&shared));
        assert_eq!(shared.permits.available_permits(), 0);
        // The executor of this store answers on this thread, so not before the next await.
        assert!(poll!(&mut finish).is_pending());
        assert_eq!(shared.permits.available_permits(), 1);
        assert_eq!(poll!(&mut ended), Poll::Pending);
        finish.await;
        assert_eq!(poll!(&mut ended), Poll::Ready(()));
    }
}
