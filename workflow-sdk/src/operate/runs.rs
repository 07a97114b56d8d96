//! Reads of runs over the database.

use std::collections::HashMap;

use async_trait::async_trait;

use workflow_engine::model::{AwaitedStep, RunId, RunNow, RunStatus, RunSummary, Timestamp};
use workflow_engine::store::{DatabaseError, Direction, ListedRuns, RunList, SCAN_BUDGET, Store, list_runs};

use crate::Client;

use super::blockers::Blockers;
use super::condition::conditions;
use super::{
    Cursor, HistoryPage, ListHistory, ListRuns, ListTimeline, OperateError, OperateRuns, PayloadOf, Query, RunDetail,
    RunPage, StoredPayload, Timeline, history, run, timeline,
};

#[async_trait]
impl OperateRuns for Client {
    async fn runs(&self, list: ListRuns) -> Result<RunPage, OperateError> {
        let from = check(&list)?;
        let listed = self.read(read_page(self.store().as_ref(), &list, from)).await?;
        Ok(page_of(listed, &list.query, from, list.direction))
    }

    async fn run(&self, run: RunId) -> Result<RunDetail, OperateError> {
        run::run(self, run).await
    }

    async fn payload(&self, run: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError> {
        run::payload(self, run, of).await
    }

    async fn find_runs(&self, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError> {
        run::find(self, id, limit).await
    }

    async fn history(&self, list: ListHistory) -> Result<HistoryPage, OperateError> {
        history::history(self, list).await
    }

    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError> {
        timeline::timeline(self, list).await
    }
}

/// Reads a page of runs, and the steps for which its parked runs wait.
async fn read_page(store: &dyn Store, list: &ListRuns, from: Option<RunId>) -> Result<ListedRuns, DatabaseError> {
    let now = store.now().await?;
    let blockers = Blockers::read(store, &list.query, now).await?;
    let mut listed = list_runs(store, &list_of(list, from, now, blockers)).await?;
    let is_waiting = |run: &&RunSummary| {
        run.status == RunStatus::Parked && matches!(run.now, RunNow::Waits | RunNow::WaitsUntil { .. })
    };
    let waiting: Vec<RunId> = listed.runs.iter().filter(is_waiting).map(|run| run.id).collect();
    if waiting.is_empty() {
        return Ok(listed);
    }
    let mut steps: HashMap<RunId, Vec<AwaitedStep>> = HashMap::new();
    for (run, step) in store.awaited_steps(&waiting).await? {
        steps.entry(run).or_default().push(step);
    }
    for run in &mut listed.runs {
        run.awaits = steps.remove(&run.id).unwrap_or_default();
    }
    Ok(listed)
}

/// Checks a request, and returns the run at which its page begins.
fn check(list: &ListRuns) -> Result<Option<RunId>, OperateError> {
    OperateError::check_limit(list.limit, ListRuns::MAX_LIMIT, "runs")?;
    list.cursor.as_ref().map(|cursor| cursor.run(&list.query)).transpose()
}

fn list_of(list: &ListRuns, from: Option<RunId>, now: Timestamp, blockers: Blockers) -> RunList {
    RunList {
        conditions: conditions(&list.query, now, blockers),
        from,
        direction: list.direction,
        limit: list.limit,
        budget: SCAN_BUDGET,
        now,
    }
}

/// Returns the page with cursors in both directions. Behind an empty page, both lead to where it
/// began, which is then part of what follows.
fn page_of(listed: ListedRuns, query: &Query, from: Option<RunId>, direction: Direction) -> RunPage {
    let ListedRuns { runs: mut items, next: onward, is_cut } = listed;
    let searched_to = onward.filter(|_| is_cut).map(RunId::time);
    if direction == Direction::Newer {
        items.reverse();
    }
    let newest = items.first().map(|run| run.id);
    let oldest = items.last().map(|run| run.id);
    let (next, previous) = match direction {
        Direction::Older => (onward, newest.or(from.map(RunId::before))),
        Direction::Newer => (oldest.or(from.map(RunId::after)), onward.or(newest).or(from)),
    };
    let cursor = |id: Option<RunId>| id.map(|id| Cursor::at(id, query));
    RunPage { items, next: cursor(next), previous: cursor(previous), searched_to, complete: onward.is_none() }
}
