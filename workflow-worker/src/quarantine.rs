//! Isolation of runs that may kill their worker.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use workflow_engine::store::ClaimedRun;

/// A run with this many crashes is suspected to cause them. A crash counts for every run that its
/// process held at the time, so one crash says little.
const SUSPICIOUS_CRASHES: i64 = 2;

/// After this time a suspected run is driven beside the next one.
const QUARANTINE_TIME: Duration = Duration::from_secs(5);

/// How long a suspected run that finds the quarantine occupied waits in the database.
pub(crate) const QUARANTINE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Drives suspected runs one at a time. If the process dies again, that run was the cause, and the
/// other suspected runs get no crash counted. Without this, one run that kills its workers would
/// take the runs beside it past the limit of crashes.
#[derive(Debug)]
pub(crate) struct Quarantine(Arc<Semaphore>);

impl Quarantine {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Returns a slot if the run may be driven now, to be kept for as long as the drive lasts.
    pub(crate) fn admit(&self, run: &ClaimedRun) -> Option<QuarantineSlot> {
        if run.crashes < SUSPICIOUS_CRASHES {
            return Some(QuarantineSlot(None));
        }
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        let mut timer = JoinSet::new();
        timer.spawn(async move {
            tokio::time::sleep(QUARANTINE_TIME).await;
            drop(permit);
        });
        Some(QuarantineSlot(Some(timer)))
    }
}

/// The right to drive a run. The slot of a suspected run keeps other suspected runs out, until it
/// is dropped or [`QUARANTINE_TIME`] is over. The slot of any other run keeps no run out.
#[derive(Debug)]
#[must_use]
pub(crate) struct QuarantineSlot(#[expect(dead_code, reason = "dropping it frees the quarantine")] Option<JoinSet<()>>);
