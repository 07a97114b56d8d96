//! Everything that an operator does, as requests and answers that can be serialized: a program, a
//! command line and a page use nothing else, over the database or over a network.
//!
//! Begin with [`Client::operate`](crate::Client::operate), [`ListRuns`] and the search grammar at
//! [`Query`].

mod condition;
mod cursor;
mod error;
mod page;
mod query;
mod runs;

use std::fmt;

use async_trait::async_trait;

pub use cursor::Cursor;
pub use error::{OperateError, OperateErrorCode};
pub use page::{ListRuns, RunPage};
pub use query::{Fact, Moment, Pattern, Query, QueryError, QueryErrorKind, Term, Test, TimeTest};
pub use workflow_engine::model::{ErrorSummary, RunNow, RunSummary};
pub use workflow_engine::store::{Direction, SCAN_BUDGET};

/// Everything that an operator does. [`Client`](crate::Client) implements it over the database.
///
/// Requests and answers are plain data that can be serialized, and so are the errors. They name no
/// database, so that a program can use the same calls over a network. More methods and fields will
/// be added: a type outside of this project should not implement the trait.
#[async_trait]
pub trait Operate: fmt::Debug + Send + Sync {
    /// Reads one page of the runs that a query finds, newest first, without their payloads.
    ///
    /// Indexes serve the empty query, a key, a tag, and the statuses other than `succeeded`. Any
    /// other query is searched for among those runs, or among all. The search of one page ends
    /// after [`SCAN_BUDGET`] rows: the page then says how far it came, and its cursor goes on from
    /// there. So a page may have no run although older pages have some.
    ///
    /// A run that is started while a client turns pages is on none of the older pages. A run whose
    /// status changes meanwhile is where its id puts it, or on no page if it does not match any
    /// more.
    ///
    /// # Errors
    /// [`BadCursor`](OperateErrorCode::BadCursor), [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{ListRuns, Operate, Query};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// # client.start_by_name("checkout", &1.into()).await?;
    /// # client.start_by_name("checkout", &2.into()).await?;
    /// let query: Query = "workflow:check* is:open".parse()?;
    /// let page = client.operate().runs(ListRuns::new(query.clone()).limit(1)).await?;
    /// assert_eq!(page.items.len(), 1);
    /// let older = ListRuns::new(query).limit(1).cursor(page.next.expect("a second page"));
    /// assert!(client.operate().runs(older).await?.complete);
    /// # Ok(())
    /// # }
    /// ```
    async fn runs(&self, list: ListRuns) -> Result<RunPage, OperateError>;
}
