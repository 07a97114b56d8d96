//! How a drive waits: for a commit, a body, a timer or an order, and when it leaves a wait to the database.

use std::collections::VecDeque;
use std::time::Duration;

use workflow_engine::executor::PendingOutcome;
use workflow_engine::replay::CallId;
use workflow_engine::runtime::RunCell;
use workflow_engine::store::Outcome;
use workflow_sdk::{DatabaseErrorKind, ErrorKind, StoredError, Timestamp};

use super::Drive;
use super::exit::Exit;
use super::transaction::Ended;
use crate::claim_state::Directive;

/// Before what a run waits for is looked for again, when the database did not answer.
const LOOK_AGAIN_DELAY: Duration = Duration::from_secs(1);

impl Drive<'_> {
    /// Waits for one fact: a commit, a body, a timer, an order.
    pub(crate) async fn wait(&mut self, timer: Option<Timestamp>, park_until: Option<Timestamp>) -> Result<(), Exit> {
        if self.claim.state().snapshot().directive == Directive::Drain
            && !self.cell.is_running()
            && self.nothing_on_its_way()
        {
            return Err(Exit::Released);
        }
        let grace_ends_at = self.grace().map(|(_, end)| end);
        let park_until = park_until.map(|until| grace_ends_at.map_or(until, |end| until.min(end)));
        if let Some(until) = park_until.filter(|until| self.parks(*until)) {
            let until_deadline = grace_ends_at.is_none();
            return Err(Exit::Park { until, until_deadline, wakes: self.wakes });
        }
        // A run that was interrupted does not wait for its deadline any more: that may have passed.
        let wake_at = [timer, grace_ends_at.or(self.run.deadline_at)].into_iter().flatten().min();
        let wake_after = wake_at.map_or(Duration::MAX, |at| self.shared.clock.until(at)).min(self.lingers_for());
        tokio::select! {
            biased;
            outcome = next_outcome(&mut self.pending) => self.take_outcome(outcome)?,
            ended = self.commits.next() => self.take_commit(ended)?,
            () = self.claim.state().notified() => self.look()?,
            () = sleep(wake_after) => self.stale |= self.waking(RunCell::fire_timers),
            () = self.saturation.changed(), if park_until.is_some() => {}
        }
        Ok(())
    }

    /// Goes on with bodies for a while, though what the run waits for could not be read.
    pub(crate) async fn wait_to_look(&mut self) -> Result<(), Exit> {
        tokio::select! {
            biased;
            outcome = next_outcome(&mut self.pending) => self.take_outcome(outcome)?,
            () = self.claim.state().notified() => self.look()?,
            () = tokio::time::sleep(LOOK_AGAIN_DELAY) => self.stale |= self.waking(RunCell::fire_timers),
        }
        Ok(())
    }

    /// Whether a wait is to be left to the database.
    fn parks(&mut self, until: Timestamp) -> bool {
        let is_saturated = self.saturation.see();
        let far = self.shared.clock.until(until) > self.shared.options.linger;
        until > self.shared.clock.now() && (is_saturated || far && self.lingers_for() == Duration::MAX)
    }

    /// How much longer a run stays in memory that waits for what others do, which may come at any moment.
    fn lingers_for(&self) -> Duration {
        if !self.cell.awaits_external_events() {
            return Duration::MAX;
        }
        let left = self.shared.options.linger.saturating_sub(self.quiet_since.elapsed());
        if left.is_zero() { Duration::MAX } else { left }
    }

    pub(crate) fn take_outcome(&mut self, outcome: Option<Outcome>) -> Result<(), Exit> {
        self.pending.pop_front();
        match outcome {
            Some(Outcome::Applied | Outcome::Duplicate) => {
                self.cell.committed();
                Ok(())
            }
            Some(Outcome::KeyTaken { id }) => {
                self.cell.key_taken(id);
                Ok(())
            }
            Some(Outcome::Refused(error)) if error.kind == DatabaseErrorKind::Invalid => {
                let error = StoredError::from_error(ErrorKind::Refused, &error).fatal();
                Err(self.ended(Err(error)))
            }
            Some(Outcome::Refused(error)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a record was not written; the run is given up until its lease ends"
                );
                Err(Exit::Lost)
            }
            // The executor has stopped, or answered another write: nothing that this drive knows is certain any more.
            Some(_) | None => Err(Exit::Lost),
        }
    }

    fn nothing_on_its_way(&self) -> bool {
        self.pending.is_empty() && self.commits.is_empty()
    }

    fn take_commit(&self, (commit, ended): (Option<(CallId, i64)>, Ended)) -> Result<(), Exit> {
        match (commit, ended) {
            (Some((call, position)), Ended::Known(result)) => {
                self.cell.transaction_ended(call, position, result);
                Ok(())
            }
            (_, _) => Err(Exit::Lost),
        }
    }
}

/// A wait without an end is no timer: most waits are for a commit, and to enter and leave the runtime's timers costs locks.
async fn sleep(duration: Duration) {
    match duration {
        Duration::MAX => std::future::pending().await,
        // Boxed, for it is larger than all else that a wait consists of, and rare.
        duration => Box::pin(tokio::time::sleep(duration)).await,
    }
}

/// The answer to the oldest write; for ever, if there is none. `None`: the executor has stopped.
pub(crate) async fn next_outcome(pending: &mut VecDeque<PendingOutcome>) -> Option<Outcome> {
    match pending.front_mut() {
        Some(outcome) => outcome.await.ok(),
        None => std::future::pending().await,
    }
}
