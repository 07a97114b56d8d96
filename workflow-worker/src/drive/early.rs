//! Outcomes that the workflow sees before their commits, and the records that wait meanwhile for
//! the last write of the drive (workflow-engine `replay/machine/early.rs`).

use workflow_engine::replay::Next;
use workflow_engine::store::Write;

use super::Drive;
use super::exit::Exit;
use super::writes::writes_of;

impl Drive<'_> {
    /// Returns the action that delivers an outcome before its commit, if there is such an outcome,
    /// else `next`.
    ///
    /// A run with crashes gets no outcome early: the code after the outcome may be what kills its
    /// workers, and a further death must not lose the outcome again.
    pub(super) fn early_or(&self, next: Next) -> Next {
        match next {
            Next::Wait { .. } if self.run.crashes == 0 => self.workflow.deliver_early().map_or(next, Next::Deliver),
            next => next,
        }
    }

    /// Waits until the database has every outcome that the workflow has seen and that was sent.
    pub(super) async fn confirm_early(&mut self) -> Result<(), Exit> {
        while self.workflow.cell().awaits_early_commit() {
            let answer = self.writes.next_record_answer().await;
            self.take_answer(answer)?;
        }
        Ok(())
    }

    /// Takes the records that are committed together with the last write of the drive. These are an
    /// outcome that the workflow has seen early, and the records after it unless the run must not
    /// go on. Returns also whether records were left out: these may have ended waits of the run.
    pub(super) fn take_held(&self, exit: &Result<Exit, Exit>) -> (Vec<Write>, bool) {
        if !self.workflow.cell().is_ahead() {
            return (Vec::new(), false);
        }
        let goes_on = match exit {
            Ok(exit) => matches!(exit, Exit::Ended(..) | Exit::Continued(_)),
            Err(exit) => matches!(exit, Exit::Park { .. } | Exit::Released),
        };
        let mut records = self.workflow.cell().take_last_outbox();
        let leaves_out = !goes_on && records.len() > 1;
        if leaves_out {
            records.truncate(1);
        }
        (records.into_iter().flat_map(|record| writes_of(self.run.claim, record)).collect(), leaves_out)
    }
}
