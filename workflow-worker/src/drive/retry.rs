//! Tries a failed run again by the policy of its workflow.

use workflow_engine::model::{run_retry_delay, steps_to_retry};
use workflow_engine::replay::Interrupted;
use workflow_engine::store::{ClaimedRun, RetryWrite, Write};
use workflow_sdk::internal::Entry;

use super::Drive;
use super::exit::Exit;

impl Drive<'_> {
    /// Returns [`Exit::Retry`] in place of a failure after which the policy of the workflow tries
    /// the run again. The steps of the next attempt follow from the recorded history. So this waits
    /// until every record has its answer, including the `held` ones.
    pub(super) async fn or_retry(&mut self, exit: Exit, held: &mut Vec<Write>) -> Result<Exit, Exit> {
        // A run that was told to end, or that was undone, is not tried again.
        let Exit::Ended(Err(error), None) = exit else { return Ok(exit) };
        if self.workflow.cell().has_begun_undo() {
            return Ok(Exit::Ended(Err(error), None));
        }
        let ClaimedRun { claim, lane, attempt, .. } = self.run;
        let policy = self.shared.registry.entry(lane).and_then(Entry::retry);
        let Some(delay) = run_retry_delay(policy, claim.run_id, *attempt, &error) else {
            return Ok(Exit::Ended(Err(error), None));
        };
        // The run was told to end, and failed by itself before the interruption was delivered.
        if let Some(Interrupted { by, .. }) = self.workflow.cell().interrupted() {
            return Ok(Exit::Ended(Err(by.error()), Some(by)));
        }
        for write in held.drain(..) {
            self.writes.send(write).map_err(|_| Exit::Lost)?;
        }
        self.writes.sent().await.map_err(|_| Exit::Lost)?;
        while self.writes.has_records() {
            let answer = self.writes.next_record_answer().await;
            self.take_answer(answer)?;
        }
        let history = self.shared.client.store().history(claim.run_id).await.map_err(Exit::Unreadable)?;
        let again = steps_to_retry(&history, Some(&error));
        let until = self.shared.clock.now() + delay;
        Ok(Exit::Retry(Box::new(RetryWrite { claim: *claim, until, again, error })))
    }
}
