//! Everything that an operator does, as requests and answers that can be serialized: a program, a
//! command line and a page use nothing else, over the database or over a network.
//!
//! Begin with [`Client::operate`](crate::Client::operate), [`ListRuns`] and the search grammar at
//! [`Query`].

mod action;
mod audit;
mod client_error;
mod condition;
mod cursor;
mod error;
mod order;
mod order_commit;
mod outcome;
mod page;
mod query;
mod runs;

use std::fmt;

use async_trait::async_trait;

pub use action::{Action, ForkRun, StartRun};
pub use audit::{AuditEntry, AuditPage, ListAudit};
pub use cursor::Cursor;
pub use error::{OperateError, OperateErrorCode};
pub use order::{Order, Payload, Role};
pub use outcome::{Done, OrderOutcome};
pub use page::{ListRuns, RunPage};
pub use query::{Fact, Moment, Pattern, Query, QueryError, QueryErrorKind, Term, Test, TimeTest};
pub use workflow_engine::model::{AuditId, ErrorSummary, RunNow, RunSummary};
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

    /// Changes something: a run, a queue, a limit, a schedule. Does what the call of the client of
    /// that name does, with the same checks, and leaves an audit row in the same commit.
    ///
    /// An order that is refused, or that finds nothing to change, leaves no row. The caller checks
    /// [`Action::role`].
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound), [`Conflict`](OperateErrorCode::Conflict) if the
    /// state of the target does not allow the order, [`BadInput`](OperateErrorCode::BadInput),
    /// [`TooLarge`](OperateErrorCode::TooLarge), [`Full`](OperateErrorCode::Full),
    /// [`Unreadable`](OperateErrorCode::Unreadable), [`TimedOut`](OperateErrorCode::TimedOut),
    /// [`Unavailable`](OperateErrorCode::Unavailable). After the last two, the order may or may not
    /// have had its effect.
    ///
    /// # Cancel safety
    /// If the future is dropped, the order may or may not have had its effect. If it had, its audit
    /// row exists.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{Action, ListAudit, Order, OrderOutcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).await?.id();
    /// let cancel = Order::new(Action::CancelRun { run }).actor("ada").reason("ordered twice");
    /// let done = client.operate().perform(cancel).await?;
    /// assert_eq!(done.outcome, OrderOutcome::Canceled);
    /// let audit = client.operate().audit(ListAudit::new().target(format!("run:{run}"))).await?;
    /// let row = &audit.items[0];
    /// assert_eq!((row.verb.as_str(), row.actor.as_deref()), ("run.cancel", Some("ada")));
    /// # Ok(())
    /// # }
    /// ```
    async fn perform(&self, order: Order) -> Result<Done, OperateError>;

    /// Reads one page of the audit rows, the newest order first.
    ///
    /// An index serves a target. Other conditions are searched for among all rows, at most
    /// [`SCAN_BUDGET`] for one page.
    ///
    /// # Errors
    /// [`BadCursor`](OperateErrorCode::BadCursor), [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn audit(&self, list: ListAudit) -> Result<AuditPage, OperateError>;
}
