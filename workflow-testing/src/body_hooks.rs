//! What an env learns of the bodies that its worker runs, and how it changes their order.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::runtime::{BodyAttempt, BodyHooks, PortFuture};
use workflow_sdk::RunId;

use super::commit_log::SharedLog;
use super::effects::{Ledger, enter_body, leave_body};

/// Bodies of steps that run at once are held up by so many milliseconds at most.
const LONGEST_DELAY: u64 = 64;

#[derive(Debug)]
pub(super) struct EnvHooks {
    pub(super) log: SharedLog,
    /// Draws for each body how long it is held up. `None`: bodies are not held up.
    pub(super) seed: Option<u64>,
    pub(super) ledger: Arc<Ledger>,
}

impl EnvHooks {
    pub(super) fn new(log: &SharedLog, seed: Option<u64>, ledger: &Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self { log: Arc::clone(log), seed, ledger: Arc::clone(ledger) })
    }
}

impl BodyHooks for EnvHooks {
    fn begins(&self, body: BodyAttempt<'_>) -> Option<PortFuture<()>> {
        self.log.body_begins(body.run_id, body.step_key, body.attempt);
        let delay = delay_of(self.seed?, &body);
        Some(Box::pin(async move { tokio::time::sleep(delay).await }))
    }

    fn enters(&self, body: BodyAttempt<'_>) {
        enter_body(body.step_key, body.attempt);
        self.ledger.body_at_work(body.run_id);
    }

    fn leaves(&self) {
        leave_body();
    }

    fn woken(&self, run_id: RunId) {
        self.ledger.run_woken(run_id);
    }
}

/// The same for the same seed and body, whatever ran before it.
fn delay_of(seed: u64, body: &BodyAttempt<'_>) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, body.step_key, body.attempt).hash(&mut hasher);
    Duration::from_millis(hasher.finish() % LONGEST_DELAY)
}
