use async_trait::async_trait;

use super::*;

/// Everything that an operator does. [`Client`](crate::Client) implements it over the database.
///
/// Requests and answers are plain data that can be serialized, and so are the errors. They name no
/// database, so that a program can use the same calls over a network. More methods and fields will
/// be added: a type outside of this project should not implement the trait.
#[async_trait]
pub trait Operate: OperateBulk + OperateChanges + OperateRuns + OperateStatistics {
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

    /// Reads one page of the seats of a limit for steps: the steps that have taken one, and then
    /// those that wait, each by key and by the time at which they asked. It reads one seat and its
    /// run for each item.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound) if the limit was neither declared nor set,
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
    /// # use workflow_sdk::{LimitRule, operate::*};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// client.limit("llm").set(LimitRule::none().concurrency(2)).await?;
    /// let page = client.operate().seats(ListSeats::new("llm").key("acct-42")).await?;
    /// assert!(page.items.is_empty() && page.next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    async fn seats(&self, list: ListSeats) -> Result<SeatPage, OperateError>;

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

    /// Returns the next `count` occurrences of a schedule. A pause or a limit of runs does not
    /// change them. Range: 1 to 1,000.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound), [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unreadable`](OperateErrorCode::Unreadable),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # use workflow_sdk::Schedule;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let daily = Schedule::cron("daily", "0 7 * * *").start_by_name("report", &().into());
    /// client.create_schedule(daily).await?;
    /// let next = client.operate().next_occurrences("daily", 2).await?;
    /// assert!(next[0].local.ends_with("T07:00:00+00:00[UTC]") && next[0].at < next[1].at);
    /// # Ok(())
    /// # }
    /// ```
    async fn next_occurrences(&self, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError>;

    /// Counts the occurrences of a backfill, and returns the first and the last of them. Starts
    /// nothing.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound), [`BadInput`](OperateErrorCode::BadInput) for times
    /// in the wrong order or more occurrences than [`BackfillSchedule::max`],
    /// [`BadLimit`](OperateErrorCode::BadLimit), [`Unreadable`](OperateErrorCode::Unreadable),
    /// [`Unavailable`](OperateErrorCode::Unavailable),
    /// [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn backfill_preview(&self, backfill: BackfillSchedule) -> Result<BackfillView, OperateError>;

    /// Reads one page of the approvals and decisions that runs wait for, the longest waiting first.
    /// One that was answered is listed until its run has received the answer.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound),
    /// [`BadCursor`](OperateErrorCode::BadCursor), [`BadLimit`](OperateErrorCode::BadLimit),
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
    /// state of the target does not allow the order, [`Standby`](OperateErrorCode::Standby),
    /// [`BadInput`](OperateErrorCode::BadInput),
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
    /// let cancel = Order::new(Action::CancelRun { run, only_ask: false });
    /// let cancel = cancel.actor("ada").reason("ordered twice");
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

    /// Reads the facts that the database has about itself: its version, size and settings, and the
    /// transactions and gates that delay its work. Over HTTP, the server reads these facts.
    ///
    /// It reads a bounded number of rows, whatever the tables hold. A part that the database
    /// refuses to the program's role is left out and named: see [`DatabaseView::refused`].
    ///
    /// # Errors
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
    /// let database = client.operate().system().await?.database;
    /// assert_eq!(database.kind, "SQLite");
    /// assert_eq!(database.schema_level, database.known_level);
    /// let sqlite = database.sqlite.unwrap_or_default();
    /// assert_eq!(sqlite.synchronous.as_deref(), Some("full"));
    /// # Ok(())
    /// # }
    /// ```
    async fn system(&self) -> Result<SystemView, OperateError>;
}
