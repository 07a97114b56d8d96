//! The reads of runs, by requests.

use std::time::Duration;

use async_trait::async_trait;
use workflow_sdk::operate::{
    Cursor, Direction, HistoryPage, ListHistory, ListRuns, ListTimeline, OperateError, OperateRuns, PayloadOf,
    RunDetail, RunId, RunPage, RunSummary, StoredPayload, Timeline,
};

use crate::Remote;
use crate::request::Target;

/// The longest time that a server waits for a run in one request. Usual proxies cut a request that
/// has no answer after a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(crate) fn text(cursor: Option<&Cursor>) -> Option<&str> {
    cursor.map(Cursor::as_str)
}

pub(crate) fn of_run(run: RunId, parts: &[&str]) -> Target {
    let id = run.to_string();
    Target::new(["runs", &id].into_iter().chain(parts.iter().copied()))
}

#[async_trait]
impl OperateRuns for Remote {
    async fn runs(&self, list: ListRuns) -> Result<RunPage, OperateError> {
        let direction = match list.direction {
            Direction::Older => "older",
            Direction::Newer => "newer",
        };
        let target = Target::new(["runs"]).with("query", Some(&list.query)).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref())).with("direction", Some(direction))).await
    }

    async fn run(&self, run: RunId) -> Result<RunDetail, OperateError> {
        self.get(of_run(run, &[])).await
    }

    async fn ended(&self, run: RunId, wait: Duration) -> Result<RunDetail, OperateError> {
        let mut left = wait;
        loop {
            let now = left.min(LONGEST_WAIT);
            left -= now;
            // The server counts whole seconds.
            let seconds = now.as_secs() + u64::from(now.subsec_nanos() > 0);
            let target = of_run(run, &["result"]).with("wait", Some(seconds));
            let detail: RunDetail = self.get_within(target, self.timeout.saturating_add(now)).await?;
            if detail.summary.status.is_terminal() || left.is_zero() {
                return Ok(detail);
            }
        }
    }

    async fn payload(&self, run: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError> {
        let target = of_run(run, &["payload"]);
        let target = match of {
            PayloadOf::Input => target.with("of", Some("input")),
            PayloadOf::Output => target.with("of", Some("output")),
            PayloadOf::Step { step, attempt } => {
                target.with("of", Some("step")).with("step", Some(step)).with("attempt", Some(attempt))
            }
            // A later release may know more of them.
            other => return Err(crate::refused(format!("no request asks for {other}"), "use a later release")),
        };
        self.get(target).await
    }

    async fn find_runs(&self, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError> {
        self.get(Target::new(["runs", "find"]).with("id", Some(id)).with("limit", Some(limit))).await
    }

    async fn history(&self, list: ListHistory) -> Result<HistoryPage, OperateError> {
        let target = of_run(list.run, &["history"]).with("step", list.step).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }

    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError> {
        self.get(of_run(list.run, &["timeline"]).with("from", Some(list.from)).with("limit", Some(list.limit))).await
    }
}
