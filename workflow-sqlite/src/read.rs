//! Reads outside of write transactions.

use std::collections::BTreeSet;

use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{Lane, Run, RunId, StepAttempt, StepKind, Timestamp};
use workflow_engine::store::{
    APPROVAL_BUDGET, ApprovalCursor, ApprovalList, DatabaseError, EmittedItem, EndedRun, INBOX_PAGE, Inbox,
    ListedApprovals, NextDue, RunWakes,
};

use super::database::Database;
use super::error::During;
use super::{row, sql};

/// See [`Store::run`](workflow_engine::store::Store::run).
pub(super) async fn run(database: &Database, id: RunId) -> Result<Option<Run>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_RUN).bind(id.to_string());
    let found = query.fetch_optional(reader.connection()?).await.during("read a run")?;
    found.as_ref().map(row::run).transpose()
}

/// See [`Store::find`](workflow_engine::store::Store::find).
pub(super) async fn find(database: &Database, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
    const OPERATION: &str = "find a run";
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::FIND_RUN).bind(workflow).bind(key);
    let found = query.fetch_optional(reader.connection()?).await.during(OPERATION)?;
    found.as_ref().map(|row| row::id(row, "id")).transpose()
}

/// See [`Store::history`](workflow_engine::store::Store::history).
pub(super) async fn history(database: &Database, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_HISTORY).bind(id.to_string());
    let rows = query.fetch_all(reader.connection()?).await.during("read a history")?;
    understand(&rows, row::step_attempt)
}

/// See [`Store::published`](workflow_engine::store::Store::published).
pub(super) async fn published(database: &Database, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query_scalar(sql::READ_PUBLISHED).bind(id.to_string()).bind(StepKind::Published.key_of(name));
    query.fetch_optional(reader.connection()?).await.during("read a published value")
}

/// See [`Store::emitted`](workflow_engine::store::Store::emitted).
pub(super) async fn emitted(
    database: &Database,
    id: RunId,
    name: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<EmittedItem>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_EMITTED).bind(id.to_string()).bind(StepKind::Emitted.key_of(name));
    let rows = query.bind(after).bind(limit).fetch_all(reader.connection()?).await.during("read a stream")?;
    understand(&rows, |row| Ok(EmittedItem { number: row::get(row, "attempt")?, item: row::get(row, "output")? }))
}

/// See [`Store::ended`](workflow_engine::store::Store::ended).
pub(super) async fn ended(database: &Database, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
    const OPERATION: &str = "read ended runs";
    let ids: BTreeSet<&RunId> = ids.iter().collect();
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_ENDED).bind(serde_json::to_string(&ids).during(OPERATION)?);
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    understand(&rows, row::ended_run)
}

/// See [`Store::next_due`](workflow_engine::store::Store::next_due).
pub(super) async fn next_due(database: &Database, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
    const OPERATION: &str = "find the next due run";
    let lanes: Vec<_> = lanes.iter().map(|lane| (&lane.queue, &lane.workflow, &lane.version)).collect();
    let mut reader = database.reader().await?;
    let query = sqlx::query_scalar(sql::FIND_NEXT_DUE).bind(serde_json::to_string(&lanes).during(OPERATION)?);
    let at: Option<i64> = query.fetch_one(reader.connection()?).await.during(OPERATION)?;
    let at = at.map(Timestamp::from_micros).filter(|at| *at < Timestamp::FAR_FUTURE);
    Ok(NextDue { now: database.now(), at })
}

/// See [`Store::inbox`](workflow_engine::store::Store::inbox).
pub(super) async fn inbox(database: &Database, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
    const OPERATION: &str = "read an inbox";
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_INBOX)
        .bind(id.to_string())
        .bind(serde_json::to_string(names).during(OPERATION)?)
        .bind(INBOX_PAGE);
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    let Some(first) = rows.first() else { return Ok(None) };
    let wakes = row::get(first, "wakes")?;
    let cancel_requested = row::get::<Option<i64>>(first, "cancel_requested_at")?.is_some();
    let signals = rows.iter().map(row::inbox_signal).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Inbox { wakes, cancel_requested, signals: signals.into_iter().flatten().collect() }))
}

/// See [`Store::missing`](workflow_engine::store::Store::missing).
pub(super) async fn missing(database: &Database, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
    const OPERATION: &str = "look for missing runs";
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_MISSING).bind(serde_json::to_string(ids).during(OPERATION)?);
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    understand(&rows, |row| row::id(row, "id"))
}

/// See [`Store::wakes`](workflow_engine::store::Store::wakes).
pub(super) async fn wakes(database: &Database, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError> {
    const OPERATION: &str = "look at held runs";
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_WAKES).bind(serde_json::to_string(ids).during(OPERATION)?);
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    understand(&rows, |row| {
        Ok(RunWakes {
            id: row::id(row, "id")?,
            wakes: row::get(row, "wakes")?,
            cancel_requested: row::get(row, "is_cancel_requested")?,
            paused: row::get(row, "is_paused")?,
        })
    })
}

/// See [`Store::approvals`](workflow_engine::store::Store::approvals).
pub(super) async fn approvals(database: &Database, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
    const DURING: &str = "list approvals";
    let ApprovalList { run, decisions, after, limit } = list;
    let behind = |statement: &'static str| {
        let query = sqlx::query::<sqlx::Sqlite>(statement).bind(after.started_at.as_micros());
        query.bind(after.run_id.to_string()).bind(after.step_key.clone())
    };
    let mut reader = database.reader().await?;
    let (query, end) = match run {
        Some(run) => {
            let query = behind(sql::LIST_APPROVALS_OF_RUN).bind(*limit).bind(*decisions);
            (query.bind(run.to_string()), None)
        }
        None => {
            let query = behind(sql::FIND_APPROVALS_END).bind(APPROVAL_BUDGET);
            let found = query.fetch_optional(reader.connection()?).await.during(DURING)?;
            let end = found.as_ref().map(approval_cursor).transpose()?;
            let last = end.clone().unwrap_or_else(ApprovalCursor::last);
            let query = behind(sql::LIST_APPROVALS).bind(*limit).bind(*decisions);
            (query.bind(last.started_at.as_micros()).bind(last.run_id.to_string()).bind(last.step_key), end)
        }
    };
    let rows = query.fetch_all(reader.connection()?).await.during(DURING)?;
    Ok(ListedApprovals { waiting: understand(&rows, row::approval)?, end })
}

fn approval_cursor(row: &SqliteRow) -> Result<ApprovalCursor, DatabaseError> {
    Ok(ApprovalCursor {
        started_at: row::time(row, "started_at")?,
        run_id: row::id(row, "run_id")?,
        step_key: row::get(row, "step_key")?,
    })
}

pub(super) fn understand<T>(
    rows: &[SqliteRow],
    understand: impl Fn(&SqliteRow) -> Result<T, DatabaseError>,
) -> Result<Vec<T>, DatabaseError> {
    rows.iter().map(understand).collect()
}
