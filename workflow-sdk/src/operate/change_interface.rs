use std::fmt;

use async_trait::async_trait;

use workflow_engine::model::RunId;

use crate::Client;

use super::{ChangePage, EmittedPage, ListChanges, ListEmitted, OperateError, StoredPayload, items};

/// The reads of [`Operate`](super::Operate) that follow what happens.
#[async_trait]
pub trait OperateChanges: fmt::Debug + Send + Sync {
    /// Returns what has changed since a place, and waits for it if nothing has.
    ///
    /// To lose no change, take a cursor first, then read what is to be shown, then repeat this call
    /// with the last cursor. The watched runs are read again whenever the database has changed, and
    /// are compared with the read before. So every commit is seen, in whatever order, and several
    /// changes of one thing between two reads count as one. A process reads once for all its
    /// waiting callers, at most every 0.4 seconds, and not at all while there are none.
    ///
    /// A call that does not wait returns all changes that were committed before it. A run that
    /// becomes due by the time alone is not a change.
    ///
    /// # Errors
    /// [`NotFound`](super::OperateErrorCode::NotFound),
    /// [`BadCursor`](super::OperateErrorCode::BadCursor),
    /// [`BadLimit`](super::OperateErrorCode::BadLimit), [`Full`](super::OperateErrorCode::Full) if
    /// too many different queries and runs are watched,
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind, and no change is lost.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # use std::time::Duration;
    /// use workflow_sdk::operate::{Change, ListChanges, OperateChanges};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let list = ListChanges::of_runs("workflow:checkout".parse()?);
    /// let now = client.operate().changes(list.clone()).await?.cursor;
    /// let run = client.start_by_name("checkout", &7.into()).await?.id();
    /// let wait = list.cursor(now).wait(Duration::from_secs(5));
    /// let changes = client.operate().changes(wait).await?;
    /// assert_eq!(changes.items, [Change::Entered { run, status: RunStatus::Pending }]);
    /// # Ok(())
    /// # }
    /// ```
    async fn changes(&self, list: ListChanges) -> Result<ChangePage, OperateError>;

    /// Reads items that a run [emits](crate::Ctx::emit) to a stream, in their order, and waits for
    /// the next one if there is none.
    ///
    /// # Errors
    /// [`NotFound`](super::OperateErrorCode::NotFound),
    /// [`BadInput`](super::OperateErrorCode::BadInput) for a name that no stream can have,
    /// [`BadLimit`](super::OperateErrorCode::BadLimit), [`Full`](super::OperateErrorCode::Full),
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{ListEmitted, OperateChanges};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("import", &7.into()).await?;
    /// run.cancel().await?;
    /// let page = client.operate().emitted(ListEmitted::new(run.id(), "log")).await?;
    /// assert!(page.items.is_empty() && page.complete);
    /// # Ok(())
    /// # }
    /// ```
    async fn emitted(&self, list: ListEmitted) -> Result<EmittedPage, OperateError>;

    /// Reads the value that a run [published](crate::Ctx::publish) last under this name.
    ///
    /// # Errors
    /// [`NotFound`](super::OperateErrorCode::NotFound) for an unknown run, and if the run has
    /// published no such value. [`BadInput`](super::OperateErrorCode::BadInput) for a name that no
    /// value can have, [`Unreadable`](super::OperateErrorCode::Unreadable),
    /// [`Unavailable`](super::OperateErrorCode::Unavailable),
    /// [`TimedOut`](super::OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn published(&self, run: RunId, name: &str) -> Result<StoredPayload, OperateError>;
}

#[async_trait]
impl OperateChanges for Client {
    async fn changes(&self, list: ListChanges) -> Result<ChangePage, OperateError> {
        self.change_watch().changes(self, list).await
    }

    async fn emitted(&self, list: ListEmitted) -> Result<EmittedPage, OperateError> {
        items::emitted(self, list).await
    }

    async fn published(&self, run: RunId, name: &str) -> Result<StoredPayload, OperateError> {
        items::published(self, run, name).await
    }
}
