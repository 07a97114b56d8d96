//! The end of a drive: what its function has come to, and the write that says so.

use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::model::{run_retry_delay, steps_to_retry};
use workflow_engine::replay::{Divergence, Interrupted, Interruption};
use workflow_engine::store::{ClaimedRun, Outcome, RetryWrite, Write};
use workflow_sdk::internal::Entry;
use workflow_sdk::{ErrorKind, StoredError};

use super::Drive;
use super::exit::Exit;
use super::wait::next_outcome;
use crate::shared::{Shared, Slot};

/// Writes how the drive ended. Its permit is free once that is queued: the commit that ends a run may claim the next one, which one of its
/// own would do later.
pub(crate) async fn finish(shared: &Shared, write: Box<Write>, slot: Slot) {
    let (before, after) = match *write {
        Write::Park(_) => ("park.before_commit", "park.after_commit"),
        Write::Continue(_) => ("continue.before_commit", "continue.after_commit"),
        Write::Retry(_) => ("retry.before_commit", "retry.after_commit"),
        _ => ("end.before_commit", "end.after_commit"),
    };
    // A lost claim's run has another owner; a stopped executor ends the worker.
    let Ok(room) = shared.executor().reserve().await else { return };
    let outcome = match failpoint_error(before) {
        Ok(()) => {
            let outcome = room.send(*write);
            drop(slot.permit);
            outcome.await
        }
        Err(fault) => Ok(Outcome::Refused(fault.into())),
    };
    if let Ok(Outcome::Refused(error)) = outcome {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the end of a run was not written; it is taken up again when its lease ends"
        );
    }
    failpoint(after);
}

pub(crate) fn report(run: &ClaimedRun, exit: &Exit) {
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
        // As for writes: what passes by itself is nothing that somebody has to mend.
        Exit::Unreadable(error) if error.kind.is_transient() => {
            let error = error as &dyn std::error::Error;
            tracing::warn!(%run_id, workflow, error, "run parked: its history was not read, trying again");
        }
        Exit::Unreadable(error) => {
            tracing::error!(%run_id, workflow, error = error as &dyn std::error::Error, "run parked: its history was not read");
        }
        Exit::Released => tracing::debug!(%run_id, workflow, "run given back"),
        Exit::QuarantineFull => {
            tracing::debug!(%run_id, workflow, crashes = run.crashes, "run waits for a trial of another")
        }
        Exit::Lost => {
            tracing::warn!(%run_id, workflow, "claim lost: the run was terminated, or is another worker's now")
        }
    }
}

impl Drive<'_> {
    /// The function has returned: an answer, unless it passed over a part of its history. What it published and emitted at
    /// last is committed before its end, or with it.
    pub(crate) async fn conclude(&mut self, end: Exit) -> Result<Exit, Exit> {
        let Some(divergence) = self.cell.ended() else {
            self.send_records().await?;
            return Ok(self.unless_told_to_end(end));
        };
        Ok(self.diverged(match end {
            Exit::Ended(Err(error), _) => divergence.with_error(&error),
            _ => divergence,
        }))
    }

    /// A run that was told to end does not continue as new.
    fn unless_told_to_end(&self, end: Exit) -> Exit {
        match (&end, self.cell.interrupted()) {
            (Exit::Continued(_), Some(Interrupted { by, delivered: true, .. })) => {
                Exit::Ended(Err(by.error()), Some(by))
            }
            _ => end,
        }
    }

    pub(crate) fn diverged(&self, divergence: Divergence) -> Exit {
        Exit::Diverged { divergence, grace_ends_at: self.grace().map(|(_, end)| end) }
    }

    pub(crate) fn ended(&self, result: Result<String, StoredError>) -> Exit {
        let interrupted = self.cell.interrupted().filter(|interrupted| interrupted.delivered);
        Exit::Ended(result, interrupted.map(|interrupted| interrupted.by))
    }

    /// Where the function failed and its policy lets it, the run is tried again. What is left to do for that is done with the
    /// history as it is recorded, so the records that are on their way come first.
    pub(crate) async fn or_retry(&mut self, exit: Exit) -> Result<Exit, Exit> {
        // One that was told to end is not begun again.
        let Exit::Ended(Err(error), None) = exit else { return Ok(exit) };
        let ClaimedRun { claim, lane, attempt, .. } = self.run;
        let policy = self.shared.registry.entry(lane).and_then(Entry::retry);
        let Some(delay) = run_retry_delay(policy, claim.run_id, *attempt, &error) else {
            return Ok(Exit::Ended(Err(error), None));
        };
        // Told to end, but it ended by itself before it came to that.
        if let Some(Interrupted { by, .. }) = self.cell.interrupted() {
            return Ok(Exit::Ended(Err(by.error()), Some(by)));
        }
        while !self.pending.is_empty() {
            let outcome = next_outcome(&mut self.pending).await;
            self.take_outcome(outcome)?;
        }
        let history = self.shared.client.store().history(claim.run_id).await.map_err(Exit::Unreadable)?;
        let again = steps_to_retry(&history, Some(&error));
        let until = self.shared.clock.now() + delay;
        Ok(Exit::Retry(Box::new(RetryWrite { claim: *claim, until, again, error })))
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
        // Whoever answers runs on this thread, too: not before the next await.
        assert!(poll!(&mut finish).is_pending());
        assert_eq!(shared.permits.available_permits(), 1);
        assert_eq!(poll!(&mut ended), Poll::Pending);
        finish.await;
        assert_eq!(poll!(&mut ended), Poll::Ready(()));
    }
}
