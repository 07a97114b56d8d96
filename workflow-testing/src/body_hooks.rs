//! Hooks into the bodies that an env's worker runs. They observe the bodies and change their order.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::runtime::{BodyAttempt, BodyHooks, PortFuture};
use workflow_sdk::RunId;

use super::commit_log::SharedLog;
use super::effects::{Ledger, enter_body, leave_body};

/// The longest delay of a body, in milliseconds, is below this bound.
const LONGEST_DELAY: u64 = 64;

#[derive(Debug)]
pub(super) struct EnvHooks {
    pub(super) log: SharedLog,
    /// The seed from which the delay of each body follows. `None` if bodies are not delayed.
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
        self.ledger.body_polled(body.run_id);
    }

    fn leaves(&self) {
        leave_body();
    }

    fn woken(&self, run_id: RunId) {
        self.ledger.run_woken(run_id);
    }
}

/// Returns the delay of a body. It depends on the seed and the body alone, not on earlier bodies.
fn delay_of(seed: u64, body: &BodyAttempt<'_>) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, body.step_key, body.attempt).hash(&mut hasher);
    Duration::from_millis(hasher.finish() % LONGEST_DELAY)
}
