use std::fmt;

use async_trait::async_trait;

use workflow_engine::model::BulkId;

use crate::Client;

use super::{BulkPage, BulkPreview, BulkView, ListBulks, OperateError, Query, bulk};

/// The reads of [`Operate`](super::Operate) that are about bulk operations. They are ordered and
/// stopped by [`Operate::perform`](super::Operate::perform).
#[async_trait]
pub trait OperateBulk: fmt::Debug + Send + Sync {
    /// Counts the runs that a bulk operation with this query would find now, up to
    /// [`MOST_COUNTED`](super::MOST_COUNTED), and shows the ten newest.
    ///
    /// Reads at most ten times [`SCAN_BUDGET`](super::SCAN_BUDGET) rows. The preview of a rare
    /// query then says how far it came.
    ///
    /// # Errors
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{OperateBulk, Query};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// client.start_by_name("checkout", &7.into()).await?;
    /// let query: Query = "workflow:checkout".parse()?;
    /// let preview = client.operate().bulk_preview(&query).await?;
    /// assert_eq!((preview.runs.runs, preview.examples.len()), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    async fn bulk_preview(&self, query: &Query) -> Result<BulkPreview, OperateError>;

    /// Reads a bulk operation, with how far it has come.
    ///
    /// # Errors
    /// [`NotFound`](super::OperateErrorCode::NotFound),
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{Action, BulkAction, BulkStatus, OperateBulk};
    /// use workflow_sdk::operate::{Order, OrderOutcome, StartBulk};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// client.start_by_name("checkout", &7.into()).await?;
    /// let start = StartBulk::new("workflow:checkout".parse()?, BulkAction::CancelRun);
    /// let order = Order::new(Action::StartBulk(Box::new(start)));
    /// let done = client.operate().perform(order).await?;
    /// let OrderOutcome::BulkStarted { bulk } = done.outcome else { panic!("{done:?}") };
    /// let view = client.operate().bulk(bulk).await?;
    /// assert_eq!((view.status, view.matched), (BulkStatus::Running, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    async fn bulk(&self, bulk: BulkId) -> Result<BulkView, OperateError>;

    /// Reads one page of the bulk operations, the newest first.
    ///
    /// # Errors
    /// [`BadCursor`](super::OperateErrorCode::BadCursor),
    /// [`BadLimit`](super::OperateErrorCode::BadLimit),
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn bulks(&self, list: ListBulks) -> Result<BulkPage, OperateError>;
}

#[async_trait]
impl OperateBulk for Client {
    async fn bulk_preview(&self, query: &Query) -> Result<BulkPreview, OperateError> {
        bulk::preview(self, query).await
    }

    async fn bulk(&self, bulk: BulkId) -> Result<BulkView, OperateError> {
        bulk::read(self, bulk).await
    }

    async fn bulks(&self, list: ListBulks) -> Result<BulkPage, OperateError> {
        bulk::list(self, list).await
    }
}
