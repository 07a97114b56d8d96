//! How long a call waits for the database.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use workflow_engine::executor::{ExecutorStopped, PendingOutcome};
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::{Client, ClientError};

/// The default of [`Connect::call_timeout`](super::Connect::call_timeout).
pub(super) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The time by which the database must have answered.
#[derive(Clone, Copy)]
pub(super) struct CallLimit {
    after: Duration,
    at: Instant,
}

impl CallLimit {
    /// Returns the answer, or an error if the time passes first.
    async fn run<T>(
        limit: Option<Self>,
        effect_unknown: bool,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match limit {
            None => call.await,
            Some(Self { after, at }) => match timeout_at(at, call).await {
                Ok(answer) => answer,
                Err(_) => Err(ClientError::TimedOut { after, effect_unknown }),
            },
        }
    }
}

impl Client {
    /// Returns the limit of a call that begins now; `None` without a timeout.
    pub(super) fn call_limit(&self) -> Option<CallLimit> {
        self.0.call_timeout.map(|after| CallLimit { after, at: Instant::now() + after })
    }

    /// Reads within the call timeout.
    pub(crate) async fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, ClientError> {
        CallLimit::run(self.call_limit(), false, async { Ok(reading.await?) }).await
    }

    /// Commits a write within the call timeout.
    pub(crate) async fn commit(&self, write: Write) -> Result<Outcome, ClientError> {
        let limit = self.call_limit();
        let pending = self.enqueue(limit, self.audit(write)).await?;
        outcome(limit, pending).await
    }

    /// Queues a write. After an error nothing was queued. Refuses a write to a standby at once,
    /// because it would only fail when the time of the call is over.
    pub(super) async fn enqueue(&self, limit: Option<CallLimit>, write: Write) -> Result<PendingOutcome, ClientError> {
        if let Some(standby) = self.store().standby() {
            return Err(ClientError::Standby(standby.clone()));
        }
        CallLimit::run(limit, false, async { Ok(self.0.executor.send(write).await?) }).await
    }
}

/// Waits for the outcome of a write that was queued. The write is committed even if the wait ends
/// first.
pub(super) async fn outcome(limit: Option<CallLimit>, pending: PendingOutcome) -> Result<Outcome, ClientError> {
    CallLimit::run(limit, true, async { Ok(pending.await.map_err(|_| ExecutorStopped)?) }).await
}
