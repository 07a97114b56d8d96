use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Lane, Run, RunId, StepAttempt, StepKind, Timestamp};
use workflow_engine::store::{
    APPROVAL_BUDGET, ApprovalCursor, ApprovalList, EmittedItem, EndedRun, INBOX_PAGE, Inbox, ListedApprovals, NextDue,
    RunWakes, WorkerRecord,
};

use super::claim::Lanes;
use super::error::Failure;
use super::row;
use super::sql::{Sql, Statement};

/// See [`Store::run`](workflow_engine::store::Store::run).
pub(super) async fn run(connection: &mut PgConnection, sql: &Sql, id: RunId) -> Result<Option<Run>, Failure> {
    let found = sql.read_run.query().bind(id.as_uuid()).fetch_optional(connection).await?;
    found.as_ref().map(row::run).transpose()
}

/// See [`Store::find`](workflow_engine::store::Store::find).
pub(super) async fn find(
    connection: &mut PgConnection,
    sql: &Sql,
    workflow: &str,
    key: &str,
) -> Result<Option<RunId>, Failure> {
    let found = sql.find_run.query().bind(workflow).bind(key).fetch_optional(connection).await?;
    found.as_ref().map(row::run_id).transpose()
}

/// See [`Store::history`](workflow_engine::store::Store::history).
pub(super) async fn history(connection: &mut PgConnection, sql: &Sql, id: RunId) -> Result<Vec<StepAttempt>, Failure> {
    let rows = sql.read_history.query().bind(id.as_uuid()).fetch_all(connection).await?;
    map_all(&rows, row::step_attempt)
}

/// See [`Store::published`](workflow_engine::store::Store::published).
pub(super) async fn published(
    connection: &mut PgConnection,
    sql: &Sql,
    id: RunId,
    name: &str,
) -> Result<Option<String>, Failure> {
    let query = sql.read_published.query().bind(id.as_uuid()).bind(StepKind::Published.key_of(name));
    let found = query.fetch_optional(connection).await?;
    Ok(found.map(|row| row.try_get("output")).transpose()?)
}

/// See [`Store::emitted`](workflow_engine::store::Store::emitted).
pub(super) async fn emitted(
    connection: &mut PgConnection,
    sql: &Sql,
    id: RunId,
    name: &str,
    (after, limit): (i64, u32),
) -> Result<Vec<EmittedItem>, Failure> {
    let query = sql.read_emitted.query().bind(id.as_uuid()).bind(StepKind::Emitted.key_of(name));
    let rows = query.bind(after).bind(i64::from(limit)).fetch_all(connection).await?;
    map_all(&rows, |row| Ok(EmittedItem { number: row.try_get("attempt")?, item: row.try_get("output")? }))
}

/// See [`Store::ended`](workflow_engine::store::Store::ended).
pub(super) async fn ended(connection: &mut PgConnection, sql: &Sql, ids: &[RunId]) -> Result<Vec<EndedRun>, Failure> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sql.read_ended.query().bind(ids).fetch_all(connection).await?;
    map_all(&rows, row::ended_run)
}

/// See [`Store::now`](workflow_engine::store::Store::now).
pub(super) async fn now(connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<Timestamp, Failure> {
    let fixed = clock.fixed().map(Timestamp::as_micros);
    row::time(&sql.read_now.query().bind(fixed).fetch_one(connection).await?, "now")
}

/// See [`Store::next_due`](workflow_engine::store::Store::next_due).
pub(super) async fn next_due(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    lanes: &[Lane],
) -> Result<NextDue, Failure> {
    let fixed = clock.fixed().map(Timestamp::as_micros);
    let row = Lanes::of(lanes).bind(sql.find_next_due.query().bind(fixed)).fetch_one(connection).await?;
    let at: Option<i64> = row.try_get("at")?;
    Ok(NextDue {
        now: row::time(&row, "now")?,
        at: at.map(Timestamp::from_micros).filter(|at| *at < Timestamp::FAR_FUTURE),
    })
}

/// See [`Store::inbox`](workflow_engine::store::Store::inbox).
pub(super) async fn inbox(
    connection: &mut PgConnection,
    sql: &Sql,
    id: RunId,
    names: &[String],
) -> Result<Option<Inbox>, Failure> {
    let query = sql.read_inbox.query().bind(id.as_uuid()).bind(names.to_vec()).bind(i64::from(INBOX_PAGE));
    let rows = query.fetch_all(connection).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let wakes = first.try_get("wakes")?;
    let cancel_requested = row::time_if_any(first, "cancel_requested_at")?.is_some();
    let signals = map_all(&rows, row::inbox_signal)?;
    Ok(Some(Inbox { wakes, cancel_requested, signals: signals.into_iter().flatten().collect() }))
}

/// See [`Store::missing`](workflow_engine::store::Store::missing).
pub(super) async fn missing(connection: &mut PgConnection, sql: &Sql, ids: &[RunId]) -> Result<Vec<RunId>, Failure> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sql.read_missing.query().bind(ids).fetch_all(connection).await?;
    map_all(&rows, row::run_id)
}

/// See [`Store::wakes`](workflow_engine::store::Store::wakes).
pub(super) async fn wakes(connection: &mut PgConnection, sql: &Sql, ids: &[RunId]) -> Result<Vec<RunWakes>, Failure> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sql.read_wakes.query().bind(ids).fetch_all(connection).await?;
    map_all(&rows, |row| {
        Ok(RunWakes {
            id: row::run_id(row)?,
            wakes: row.try_get("wakes")?,
            cancel_requested: row.try_get("is_cancel_requested")?,
            paused: row.try_get("is_paused")?,
        })
    })
}

/// See [`Store::approvals`](workflow_engine::store::Store::approvals).
pub(super) async fn approvals(
    connection: &mut PgConnection,
    sql: &Sql,
    list: &ApprovalList,
) -> Result<ListedApprovals, Failure> {
    let ApprovalList { run, decisions, after, limit } = list;
    let behind = |statement: &Statement| {
        let query = statement.query().bind(after.started_at.as_micros());
        query.bind(after.run_id.as_uuid()).bind(after.step_key.clone())
    };
    let (query, end) = match run {
        Some(run) => {
            let query = behind(&sql.list_approvals_of_run).bind(i64::from(*limit)).bind(*decisions);
            (query.bind(run.as_uuid()), None)
        }
        None => {
            let query = behind(&sql.find_approvals_end).bind(i64::from(APPROVAL_BUDGET));
            let end = query.fetch_optional(&mut *connection).await?.as_ref().map(approval_cursor).transpose()?;
            let last = end.clone().unwrap_or_else(ApprovalCursor::last);
            let query = behind(&sql.list_approvals).bind(i64::from(*limit)).bind(*decisions);
            (query.bind(last.started_at.as_micros()).bind(last.run_id.as_uuid()).bind(last.step_key), end)
        }
    };
    let waiting = map_all(&query.fetch_all(connection).await?, row::approval)?;
    Ok(ListedApprovals { waiting, end })
}

fn approval_cursor(row: &PgRow) -> Result<ApprovalCursor, Failure> {
    Ok(ApprovalCursor {
        started_at: row::time(row, "started_at")?,
        run_id: row.try_get::<Uuid, _>("run_id")?.into(),
        step_key: row.try_get("step_key")?,
    })
}

/// See [`Store::workers`](workflow_engine::store::Store::workers).
pub(super) async fn workers(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<WorkerRecord>, Failure> {
    map_all(&sql.read_workers.query().fetch_all(connection).await?, |row| {
        Ok(WorkerRecord {
            id: row.try_get::<Uuid, _>("id")?.into(),
            lanes: serde_json::from_str(row.try_get("lanes")?).unwrap_or_default(),
            retention: serde_json::from_str(row.try_get("retention")?).ok(),
            started_at: row::time(row, "started_at")?,
            live: row.try_get("live")?,
        })
    })
}

/// See [`Store::due_lanes`](workflow_engine::store::Store::due_lanes).
pub(super) async fn due_lanes(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    lanes: &[Lane],
) -> Result<Vec<Lane>, Failure> {
    let query = sql
        .find_due_lanes
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(lanes.iter().map(|lane| lane.queue.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.workflow.as_str()).collect::<Vec<_>>());
    map_all(&query.fetch_all(connection).await?, row::lane)
}

/// See [`Store::lanes`](workflow_engine::store::Store::lanes).
pub(super) async fn lanes(connection: &mut PgConnection, sql: &Sql, limit: u32) -> Result<Vec<Lane>, Failure> {
    let rows = sql.list_lanes.query().bind(i64::from(limit)).fetch_all(connection).await?;
    map_all(&rows, row::lane)
}

pub(super) fn map_all<T>(rows: &[PgRow], map: fn(&PgRow) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    rows.iter().map(map).collect()
}
