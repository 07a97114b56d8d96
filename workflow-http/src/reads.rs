//! Everything that is only read.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use workflow_sdk::operate::{
    self, ApprovalPage, AuditPage, BackfillSchedule, BackfillView, Counts, Cursor, Direction, GatePage, HistoryPage,
    LimitView, ListApprovals, ListAudit, ListGates, ListHistory, ListRuns, ListSchedules, ListSeats, ListTimeline,
    OccurrenceView, PayloadOf, QueueView, RunDetail, RunPage, RunSummary, SchedulePage, ScheduleView, SeatPage,
    StoredPayload, SystemView, Timeline, WorkerView, WorkflowView,
};
use workflow_sdk::{Explanation, RunId, StoredError, Timestamp};

use crate::body::{Path, Query};
use crate::{Actor, Answer, Problem, Shared};

/// The parameters of a list of runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsPage {
    query: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
    direction: Option<Direction>,
}

/// The parameters of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Hides what the actor may not see.
#[must_use]
pub fn shown(mut detail: RunDetail, actor: &Actor) -> RunDetail {
    if !actor.payloads {
        for payload in [&mut detail.input, &mut detail.output].into_iter().flatten() {
            hide(payload);
        }
        detail.error = None;
        match &mut detail.explanation {
            Explanation::Ended { error, .. } => *error = None,
            Explanation::Retrying { error, .. } | Explanation::Diverged { error, .. } => {
                *error = StoredError::new(error.kind, "the text is hidden from this actor");
            }
            _ => {}
        }
        detail.why = detail.explanation.to_string();
    }
    detail
}

fn hide(payload: &mut StoredPayload) {
    payload.json = None;
}

pub(crate) async fn runs(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Query(page): Query<RunsPage>,
) -> Answer<RunPage> {
    let query: operate::Query = page.query.unwrap_or_default().parse().map_err(operate::OperateError::from)?;
    crate::items::may_search(&actor, &query)?;
    let mut list = ListRuns::new(query).direction(page.direction.unwrap_or_default());
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = page.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    let mut page = shared.operate.runs(list).await?;
    if !actor.payloads {
        page.items.iter_mut().for_each(|run| run.error = None);
    }
    Ok(Json(page))
}

pub(crate) async fn run(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path(run): Path<RunId>,
) -> Answer<RunDetail> {
    Ok(Json(shown(shared.operate.run(run).await?, &actor)))
}

/// A part of an id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    id: String,
    limit: Option<u32>,
}

/// The number of runs that a search finds by default.
const FOUND: u32 = 20;

pub(crate) async fn find(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Query(Part { id, limit }): Query<Part>,
) -> Answer<Vec<RunSummary>> {
    let mut runs = shared.operate.find_runs(&id, limit.unwrap_or(FOUND)).await?;
    if !actor.payloads {
        runs.iter_mut().for_each(|run| run.error = None);
    }
    Ok(Json(runs))
}

/// Which payload of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhichPayload {
    of: String,
    step: Option<String>,
    attempt: Option<i64>,
}

pub(crate) async fn payload(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path(run): Path<RunId>,
    Query(which): Query<WhichPayload>,
) -> Answer<StoredPayload> {
    crate::items::sees_payloads(&actor)?;
    let of = match (which.of.as_str(), which.step) {
        ("input", None) => PayloadOf::Input,
        ("output", None) => PayloadOf::Output,
        ("step", Some(step)) => PayloadOf::Step { step, attempt: which.attempt.unwrap_or(1) },
        _ => {
            let help = "write of=input, of=output, or of=step&step=KEY&attempt=1";
            return Err(Problem::bad_input("it is not clear which payload is asked for", help));
        }
    };
    Ok(Json(shared.operate.payload(run, of).await?))
}

/// A page of a history.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempts {
    step: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn history(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path(run): Path<RunId>,
    Query(attempts): Query<Attempts>,
) -> Answer<HistoryPage> {
    let mut list = ListHistory::new(run);
    list.step = attempts.step;
    if let Some(limit) = attempts.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = attempts.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    let mut page = shared.operate.history(list).await?;
    if !actor.payloads {
        for item in &mut page.items {
            item.output.iter_mut().for_each(hide);
            item.error = None;
        }
    }
    Ok(Json(page))
}

/// A part of a timeline.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    from: Option<u32>,
    limit: Option<u32>,
}

pub(crate) async fn timeline(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path(run): Path<RunId>,
    Query(window): Query<Window>,
) -> Answer<Timeline> {
    let mut list = ListTimeline::new(run).from(window.from.unwrap_or_default());
    if let Some(limit) = window.limit {
        list = list.limit(limit);
    }
    let mut timeline = shared.operate.timeline_window(list).await?;
    if !actor.payloads {
        timeline.rows.iter_mut().for_each(|row| row.error = None);
    }
    Ok(Json(timeline))
}

pub(crate) async fn system(State(shared): State<Shared>) -> Answer<SystemView> {
    Ok(Json(shared.operate.system().await?))
}

pub(crate) async fn counts(State(shared): State<Shared>) -> Answer<Counts> {
    Ok(Json(shared.operate.counts().await?))
}

pub(crate) async fn queues(State(shared): State<Shared>) -> Answer<Vec<QueueView>> {
    Ok(Json(shared.operate.queues().await?))
}

pub(crate) async fn gates(
    State(shared): State<Shared>,
    Path(queue): Path<String>,
    Query(page): Query<Page>,
) -> Answer<GatePage> {
    let mut list = ListGates::new(queue);
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = page.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    Ok(Json(shared.operate.gates(list).await?))
}

pub(crate) async fn limits(State(shared): State<Shared>) -> Answer<Vec<LimitView>> {
    Ok(Json(shared.operate.limits().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeatsPage {
    key: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn seats(
    State(shared): State<Shared>,
    Path(limit): Path<String>,
    Query(page): Query<SeatsPage>,
) -> Answer<SeatPage> {
    let mut list = ListSeats::new(limit);
    (list.key, list.cursor) = (page.key, page.cursor.map(Cursor::new));
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    Ok(Json(shared.operate.seats(list).await?))
}

pub(crate) async fn workers(State(shared): State<Shared>) -> Answer<Vec<WorkerView>> {
    Ok(Json(shared.operate.workers().await?))
}

pub(crate) async fn workflows(State(shared): State<Shared>) -> Answer<Vec<WorkflowView>> {
    Ok(Json(shared.operate.workflows().await?))
}

pub(crate) async fn schedules(State(shared): State<Shared>, Query(page): Query<Page>) -> Answer<SchedulePage> {
    let mut list = ListSchedules::new();
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = page.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    Ok(Json(shared.operate.schedules(list).await?))
}

pub(crate) async fn schedule(State(shared): State<Shared>, Path(schedule): Path<String>) -> Answer<ScheduleView> {
    Ok(Json(shared.operate.schedule(&schedule).await?))
}

/// How many occurrences.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HowMany {
    count: Option<u32>,
}

/// The number of occurrences by default.
const NEXT: u32 = 5;

pub(crate) async fn next_occurrences(
    State(shared): State<Shared>,
    Path(schedule): Path<String>,
    Query(HowMany { count }): Query<HowMany>,
) -> Answer<Vec<OccurrenceView>> {
    Ok(Json(shared.operate.next_occurrences(&schedule, count.unwrap_or(NEXT)).await?))
}

/// The times of a backfill, in microseconds since 1970.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillTimes {
    after: i64,
    until: i64,
    max: Option<u32>,
}

pub(crate) async fn backfill_preview(
    State(shared): State<Shared>,
    Path(schedule): Path<String>,
    Query(BackfillTimes { after, until, max }): Query<BackfillTimes>,
) -> Answer<BackfillView> {
    let [after, until] = [after, until].map(Timestamp::from_micros);
    let mut backfill = BackfillSchedule::new(schedule, after, until);
    backfill.max = max;
    Ok(Json(shared.operate.backfill_preview(backfill).await?))
}

/// Which approvals.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhichApprovals {
    run: Option<RunId>,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn approvals(
    State(shared): State<Shared>,
    Query(WhichApprovals { run, cursor, limit }): Query<WhichApprovals>,
) -> Answer<ApprovalPage> {
    let mut list = ListApprovals::new();
    if let Some(run) = run {
        list = list.run(run);
    }
    if let Some(cursor) = cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    if let Some(limit) = limit {
        list = list.limit(limit);
    }
    Ok(Json(shared.operate.approvals(list).await?))
}

/// Which rows of the audit log.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhichAudit {
    #[serde(default)]
    verb: String,
    target: Option<String>,
    actor: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn audit(State(shared): State<Shared>, Query(which): Query<WhichAudit>) -> Answer<AuditPage> {
    let mut list = ListAudit::new().verb(which.verb);
    if let Some(target) = which.target {
        list = list.target(target);
    }
    if let Some(actor) = which.actor {
        list = list.actor(actor);
    }
    if let Some(limit) = which.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = which.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    Ok(Json(shared.operate.audit(list).await?))
}
