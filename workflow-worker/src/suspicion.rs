use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use workflow_engine::store::ClaimedRun;

/// From so many crashes on a run is suspected to be their cause. Every run that its process held at the time has been
/// counted one, so one crash says little.
const SUSPECT_CRASHES: i64 = 2;

/// A suspect that has lived for so long is let go beside the next.
const TRIAL: Duration = Duration::from_secs(5);

/// How long a suspect that has to wait is left to the database.
pub(crate) const RETRIAL_DELAY: Duration = Duration::from_secs(1);

/// Runs suspects one at a time: if the process dies again, it was that one, and none of the others is counted a crash. Without
/// this, one run that kills its workers would take its neighbours with it beyond the limit of crashes.
#[derive(Debug)]
pub(crate) struct Suspicion(Arc<Semaphore>);

impl Suspicion {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Whether the run may be driven now. It is on trial until the answer is dropped.
    pub(crate) fn admit(&self, run: &ClaimedRun) -> Option<Trial> {
        if run.crashes < SUSPECT_CRASHES {
            return Some(Trial(None));
        }
        let alone = Arc::clone(&self.0).try_acquire_owned().ok()?;
        let mut trial = JoinSet::new();
        trial.spawn(async move {
            tokio::time::sleep(TRIAL).await;
            drop(alone);
        });
        Some(Trial(Some(trial)))
    }
}

/// Of a suspect: while it lives, at most for the time of a trial, no other suspect begins. Of any other run: nothing.
#[derive(Debug)]
#[must_use]
pub(crate) struct Trial(#[expect(dead_code, reason = "what ends with it matters")] Option<JoinSet<()>>);
