use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use workflow_engine::store::{Outcome, Write};

use crate::WorkerError;
use crate::claim_state::Directive;
use crate::shared::Shared;

/// The longest time for the last writes of a worker that ends at once.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// The signals that ask a process to end: SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`WorkerError::Signals`] if the process cannot listen.
    pub(crate) fn listen() -> Result<Self, WorkerError> {
        let listen = |kind| signal(kind).map_err(WorkerError::Signals);
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Returns at the next signal.
    pub(crate) async fn next(mut self) -> Self {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        self
    }
}

/// Lets running steps end for the grace time, or until `at_once`. Then gives every run back.
pub(crate) async fn drain(shared: &Shared, at_once: impl Future<Output = ()>) {
    shared.claims.direct_all(Directive::Drain);
    tokio::join!(end_drives(shared, at_once), release_undriven(shared));
}

/// Gives runs back that no drive has. The commit of a claim that was under way when the claim loop
/// was dropped claims such runs. They are given back now, not after the grace time.
pub(crate) async fn release_undriven(shared: &Shared) {
    // In a batch, claims come after releases. So the first release may be committed before the
    // claim, but the second is not.
    for _ in 0..2 {
        let release = Write::ReleaseUnknown { worker: shared.id, known: shared.claims.all() };
        let answer = tokio::time::timeout(LAST_WRITES, shared.executor().commit(release)).await;
        if let Ok(Ok(Outcome::Refused(error))) = answer {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "last claims not given back; they end with their leases"
            );
        }
    }
}

async fn end_drives(shared: &Shared, at_once: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = all_ended(shared) => return,
        () = tokio::time::sleep(shared.options.grace) => tracing::warn!("grace time is over, dropping steps that still run"),
        () = at_once => tracing::warn!("asked again to stop, dropping steps that still run"),
    }
    shared.claims.direct_all(Directive::Abandon);
    if tokio::time::timeout(LAST_WRITES, all_ended(shared)).await.is_err() {
        tracing::warn!("some runs were not given back; other workers take them over when their leases end");
    }
}

/// Returns when no drive is left, and the last writes of all drives have their answers.
pub(crate) async fn all_ended(shared: &Shared) {
    // The claim loop has been dropped, so no further drive begins.
    shared.drives.closed().await;
}

/// Gives every run back when the worker's future is dropped.
///
/// Drives are tasks of their own. Without this they would outlive the worker and the renewal of
/// their leases, and the runs of a claim that was under way would have no drive.
pub(crate) struct ReleaseOnDrop(pub(crate) Option<Arc<Shared>>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        shared.claims.direct_all(Directive::Abandon);
        // Without a runtime nothing can be written.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { release_undriven(&shared).await });
        }
    }
}
