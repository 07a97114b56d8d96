use async_trait::async_trait;

use crate::Client;

use super::*;

/// The reads of [`Operate`] that are about what has happened: counts per span of time, and
/// failures.
#[async_trait]
pub trait OperateStatistics: Send + Sync {
    /// Reads how many runs were started, and how they ended, in a range of time: see [`StatsPage`].
    ///
    /// Reads at most [`SCAN_BUDGET`] rows, the newest first. A row is a minute, an hour or a day of
    /// a lane; in the present minutes, of each process.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) for an empty range,
    /// [`BadLimit`](OperateErrorCode::BadLimit) for one of more than 10,000 steps,
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # use workflow_sdk::operate::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let stats = client.operate().stats(ListStats::new().since("-1d".parse()?)).await?;
    /// assert_eq!(stats.groups[0].total.failed, 0);
    /// # Ok(())
    /// # }
    /// ```
    async fn stats(&self, list: ListStats) -> Result<StatsPage, OperateError>;

    /// Reads groups of alike failures, those that failed last first.
    ///
    /// A database keeps 1,000 groups: those whose last failure is the oldest are forgotten.
    ///
    /// # Errors
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # use workflow_sdk::operate::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let failures = client.operate().failures(ListFailures::new()).await?;
    /// assert!(failures.items.is_empty() && failures.complete);
    /// # Ok(())
    /// # }
    /// ```
    async fn failures(&self, list: ListFailures) -> Result<FailurePage, OperateError>;
}

#[async_trait]
impl OperateStatistics for Client {
    async fn stats(&self, list: ListStats) -> Result<StatsPage, OperateError> {
        statistics::stats(self, list).await
    }

    async fn failures(&self, list: ListFailures) -> Result<FailurePage, OperateError> {
        failures::failures(self, list).await
    }
}
