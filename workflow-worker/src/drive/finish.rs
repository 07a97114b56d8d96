//! The end of a drive: its report in the log, and its last write.

use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::replay::Interruption;
use workflow_engine::store::{ClaimedRun, Outcome, Write};
use workflow_sdk::ErrorKind;

use super::exit::Exit;
use crate::shared::{Shared, Slot};

/// Commits the last write of a drive.
///
/// The permit is free as soon as the write is queued. So the commit that ends this run may claim the
/// next one, which would otherwise need a later commit.
pub(super) async fn finish(shared: &Shared, write: Box<Write>, slot: Slot) {
    let (before, after) = failpoints_of(&write);
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
    // If the claim is lost, the run has another owner, and nothing is to be done.
    if let Ok(Outcome::Refused(error)) = outcome {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the end of a run was not written; a worker takes the run up again when its lease ends"
        );
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

/// Logs how a drive ended.
pub(super) fn report(run: &ClaimedRun, exit: &Exit) {
    let run_id = run.claim.run_id;
    let workflow = &run.lane.workflow;
    match exit {
        Exit::Ended(_, Some(Interruption::Deadline)) => {
            tracing::warn!(%run_id, workflow, "run had not ended at its deadline");
        }
        Exit::Ended(Ok(_), _) => tracing::debug!(%run_id, workflow, "run succeeded"),
        Exit::Ended(Err(error), Some(_)) if error.kind == ErrorKind::Canceled => {
            tracing::info!(%run_id, workflow, "run canceled");
        }
        Exit::Ended(Err(error), _) => tracing::warn!(%run_id, workflow, kind = %error.kind, "run failed"),
        Exit::Continued(_) => {
            tracing::debug!(%run_id, workflow, generation = run.generation + 1, "run continues as new")
        }
        Exit::Retry(write) => {
            let (kind, until) = (write.error.kind, write.until);
            tracing::warn!(%run_id, workflow, %kind, attempt = run.attempt, %until, "run failed, trying again");
        }
        Exit::GraceOver(by) => tracing::warn!(%run_id, workflow, ?by, "run ended: the grace for its clean-up is over"),
        Exit::Park { until, .. } => tracing::debug!(%run_id, workflow, ?until, "run parked"),
        Exit::Diverged { divergence, .. } => tracing::error!(%run_id, workflow, "run parked: {divergence}"),
        // No error: the next read may succeed without help.
        Exit::Unreadable(error) if error.kind.is_transient() => {
            let error = error as &dyn std::error::Error;
            tracing::warn!(%run_id, workflow, error, "run parked: its history was not read, trying again");
        }
        Exit::Unreadable(error) => {
            tracing::error!(%run_id, workflow, error = error as &dyn std::error::Error, "run parked: its history was not read");
        }
        Exit::Released => tracing::debug!(%run_id, workflow, "run given back"),
        Exit::QuarantineFull => {
            tracing::debug!(%run_id, workflow, crashes = run.crashes, "run waits: another run is in quarantine")
        }
        Exit::Lost => {
            tracing::warn!(%run_id, workflow, "claim lost: the run was terminated, or another worker has it")
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use futures::poll;
    use workflow_engine::model::Claim;
    use workflow_engine::store::{EndWrite, RunEnd};

    use super::*;
    use crate::shutdown::all_ended;

    #[tokio::test]
    async fn the_permit_is_free_before_the_end_is_committed_and_a_shutdown_waits_for_the_commit() {
        let shared = Shared::idle(1).await;
        let permit = Arc::clone(&shared.permits).try_acquire_owned().unwrap();
        let slot = Slot { permit: Some(permit), _drive: shared.drives.subscribe() };
        let claim = Claim { run_id: "00000000-0000-0000-0000-000000000001".parse().unwrap(), epoch: 1 };
        let end = EndWrite { claim, parent_run_id: None, has_children: false, end: RunEnd::Canceled };

        let mut finish = Box::pin(finish(&shared, Box::new(Write::End(end)), slot));
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
