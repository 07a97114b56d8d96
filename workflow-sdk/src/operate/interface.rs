use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::*;

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

    /// Reads one run: its row, its payloads, and what it does or waits for.
    ///
    /// A payload of more than [`SHOWN_BYTES`] is left out, and only its size is given. To explain a
    /// run, at most 1,000 rows of its open steps are read.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`Unreadable`](OperateErrorCode::Unreadable),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// let detail = client.operate().run(run.id()).await?;
    /// assert_eq!(detail.input.unwrap().json.unwrap().as_str(), "7");
    /// assert!(detail.why.contains("no worker serves checkout"));
    /// # Ok(())
    /// # }
    /// ```
    async fn run(&self, run: RunId) -> Result<RunDetail, OperateError>;

    /// Waits until a run has ended, for at most this long, and reads it. A run that has not ended
    /// by then is returned as it is. Errors and cancel safety are those of [`Operate::run`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # use workflow_sdk::operate::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// run.cancel().await?;
    /// let ended = client.operate().ended(run.id(), Duration::from_secs(30)).await?;
    /// assert_eq!(ended.summary.status, RunStatus::Canceled);
    /// # Ok(())
    /// # }
    /// ```
    async fn ended(&self, run: RunId, wait: Duration) -> Result<RunDetail, OperateError> {
        const SHORTEST: Duration = Duration::from_millis(20);
        const LONGEST: Duration = Duration::from_secs(1);
        let begun = Instant::now();
        let mut pause = SHORTEST;
        loop {
            let detail = self.run(run).await?;
            let left = wait.saturating_sub(begun.elapsed());
            if detail.summary.status.is_terminal() || left.is_zero() {
                return Ok(detail);
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Reads one payload of a run as a whole, whatever its size.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// assert_eq!(client.operate().payload(run.id(), PayloadOf::Input).await?.bytes, 1);
    /// # Ok(())
    /// # }
    /// ```
    async fn payload(&self, run: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError>;

    /// Finds the runs whose id begins with these digits, or whose id ends with them if none begins
    /// so.
    ///
    /// The ids of runs that are started within an hour begin alike, so the end of an id often names
    /// a run with fewer digits. For the end, only the newest [`SCAN_BUDGET`] runs are searched.
    /// `id` has at least 6 hexadecimal digits and hyphens where you like; `limit` is 1 to 100. The
    /// newest run comes first.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// let id = run.id().to_string();
    /// for part in [&id[..13], &id[28..]] {
    /// assert_eq!(client.operate().find_runs(part, 10).await?[0].id, run.id());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    async fn find_runs(&self, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError>;

    /// Reads one page of the history of a run: the outcomes in the order in which the workflow got
    /// them, then the attempts that are no outcome.
    ///
    /// An attempt that becomes an outcome while a client turns pages may be on no page: it then
    /// stands behind the outcomes that were read. To follow a run, read again from the last cursor
    /// before the attempts without an outcome. A page reads the keys of the whole history, and the
    /// rest of its own rows only.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`BadCursor`](OperateErrorCode::BadCursor),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// let page = client.operate().history(ListHistory::new(run.id()).limit(20)).await?;
    /// assert!(page.items.is_empty() && page.next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    async fn history(&self, list: ListHistory) -> Result<HistoryPage, OperateError>;

    /// Reads the history of a run as data for a drawing: its first 500 steps. [`Timeline`]
    /// describes its limits.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// let run = client.start_by_name("checkout", &7.into()).await?;
    /// let timeline = client.operate().timeline(run.id()).await?;
    /// assert_eq!(timeline.spans[0].state, SpanState::Queued);
    /// # Ok(())
    /// # }
    /// ```
    async fn timeline(&self, run: RunId) -> Result<Timeline, OperateError> {
        self.timeline_window(ListTimeline::new(run)).await
    }

    /// Reads some steps of the timeline of a run, for a run with many: see
    /// [`timeline`](Operate::timeline).
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound), [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError>;

    /// Counts the runs that have not ended, have failed or were canceled, by state: see [`Counts`].
    ///
    /// # Errors
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// client.start_by_name("checkout", &7.into()).await?;
    /// let counts = client.operate().counts().await?;
    /// assert_eq!((counts.due.runs, counts.due.at_least), (1, false));
    /// # Ok(())
    /// # }
    /// ```
    async fn counts(&self) -> Result<Counts, OperateError>;

    /// Reads every queue that was declared, limited or paused, or in which a run was ever started,
    /// in the order of the names; at most 1,000.
    ///
    /// # Errors
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// client.start_by_name("checkout", &7.into()).queue("mail").await?;
    /// let queues = client.operate().queues().await?;
    /// assert_eq!((queues[0].name.as_str(), queues[0].waiting.runs), ("mail", 1));
    /// # Ok(())
    /// # }
    /// ```
    async fn queues(&self) -> Result<Vec<QueueView>, OperateError>;

    /// Reads one page of the gates of a queue, in the order of their names.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`BadCursor`](OperateErrorCode::BadCursor),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// client.start_by_name("checkout", &7.into()).gate("acct-42").await?;
    /// let page = client.operate().gates(ListGates::new("default")).await?;
    /// assert_eq!(page.items[0].name, "acct-42");
    /// # Ok(())
    /// # }
    /// ```
    async fn gates(&self, list: ListGates) -> Result<GatePage, OperateError>;

    /// Reads the limits for steps that were declared or set, in the order of the names; at most
    /// 1,000.
    ///
    /// # Errors
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn limits(&self) -> Result<Vec<LimitView>, OperateError>;

    /// Reads the recorded workers, in the order of their ids.
    ///
    /// # Errors
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn workers(&self) -> Result<Vec<WorkerView>, OperateError>;

    /// Reads the workflows of which a run was ever started or that a live worker serves, with their
    /// versions, in the order of the names. At most 10,000 lanes are looked at.
    ///
    /// # Errors
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
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
    /// client.start_by_name("checkout", &7.into()).await?;
    /// let workflows = client.operate().workflows().await?;
    /// assert!(workflows[0].name == "checkout" && workflows[0].versions[0].unserved);
    /// # Ok(())
    /// # }
    /// ```
    async fn workflows(&self) -> Result<Vec<WorkflowView>, OperateError>;

    /// Reads one page of schedules, in the order of their names.
    ///
    /// # Errors
    /// [`BadCursor`](OperateErrorCode::BadCursor),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn schedules(&self, list: ListSchedules) -> Result<SchedulePage, OperateError>;

    /// Reads one schedule.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`Unreadable`](OperateErrorCode::Unreadable),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn schedule(&self, name: &str) -> Result<ScheduleView, OperateError>;

    /// Reads the approvals that runs wait for, the longest waiting first. One that was decided is
    /// listed until its run has received the decision.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError>;

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
