use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::*;

/// The reads of [`Operate`] that are about runs: lists, one run, its history and its timeline.
#[async_trait]
pub trait OperateRuns: fmt::Debug + Send + Sync {
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
    /// use workflow_sdk::operate::{ListRuns, OperateRuns, Query};
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
    /// by then is returned as it is.
    ///
    /// # Errors
    /// See [`OperateRuns::run`].
    ///
    /// # Cancel safety
    /// See [`OperateRuns::run`].
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
    /// them, then the attempts that are no outcome. Or of one step: see [`ListHistory::step`].
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
    /// [`timeline`](OperateRuns::timeline). However many steps the run has, the database reads only
    /// the steps of the window, by an index.
    ///
    /// # Errors
    /// [`NotFound`](OperateErrorCode::NotFound), [`BadLimit`](OperateErrorCode::BadLimit),
    /// [`Unavailable`](OperateErrorCode::Unavailable), [`TimedOut`](OperateErrorCode::TimedOut).
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError>;
}
