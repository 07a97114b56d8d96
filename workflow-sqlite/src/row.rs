//! Turns rows into the model. In a row of a run, an unreadable value is noted beside the others,
//! because one bad row must not hide the others of a list. Elsewhere it is an error of kind
//! `Corrupt`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{
    AcceptedSignal, AttemptStatus, Claim, InboxSignal, Lane, OnParentEnd, Parent, PayloadContext, PayloadPlace, Rank,
    Run, RunId, RunStatus, SingleKey, SingleUntil, StepAttempt, StepKind, StoredError, Timestamp, TraceContext,
    UnreadablePayload, UnreadableReason, WorkerId, unquoted,
};
use workflow_engine::store::{DatabaseError, EndedRun, Renewed, WaitingApproval};

use super::error::{During, corrupt};

const OPERATION: &str = "understand a row";

type Result<T> = std::result::Result<T, DatabaseError>;

/// Reads a row of `list_runs.sql`.
pub(super) fn listed_run(row: &SqliteRow) -> Result<Run> {
    let mut run = run(row)?;
    if get(row, "is_error_long")? {
        run.error = Some(StoredError::too_long_for_a_list());
    }
    Ok(run)
}

/// Reads a row of `read_run.sql` or `list_runs.sql`.
pub(super) fn run(row: &SqliteRow) -> Result<Run> {
    let id = id(row, "id")?;
    let input = payload(row, "input", id, PayloadPlace::Input)?.unwrap_or_default();
    let (lane, no_lane) = maybe_lane(row)?;
    let mut run = Run::pending(id, lane, input, time(row, "available_at")?, time(row, "created_at")?);
    run.unreadable.extend(no_lane);
    run.gate = get::<Option<String>>(row, "gate")?.filter(|gate| !gate.is_empty());
    run.status = run.read_or("status", status(row).map_err(reason), RunStatus::Parked);
    run.output = payload(row, "output", id, PayloadPlace::Output)?;
    run.read_error(lossy(row, "error")?.as_deref());
    run.key = run.read_or("key", get(row, "key").map_err(reason), None);
    run.single = run.read_or("single_until", single(row).map_err(reason), None);
    let rank = get::<i16>(row, "rank").map_err(reason).and_then(|number| Ok(Rank::numbered(number)?));
    run.priority = run.read_or("rank", rank.map(Rank::priority), None);
    run.worker_id = run.read_or("worker_id", worker(row).map_err(reason), None);
    run.epoch = get(row, "epoch")?;
    run.wakes = get(row, "wakes")?;
    run.crashes = get(row, "crashes")?;
    run.lone_crashes = get::<Option<i64>>(row, "lone_crashes")?.unwrap_or(0);
    run.attempt = get(row, "attempt")?;
    run.generation = get(row, "generation")?;
    run.depth = get(row, "depth")?;
    run.trace = run.read_or("trace", trace(row).map_err(reason), None);
    run.parent = run.read_or("parent", parent(row).map_err(reason), None);
    run.deadline_at = maybe_time(row, "deadline_at")?;
    run.cancel_requested_at = maybe_time(row, "cancel_requested_at")?;
    run.paused_at = maybe_time(row, "paused_at")?;
    run.started_at = maybe_time(row, "started_at")?;
    run.completed_at = maybe_time(row, "completed_at")?;
    run.tags = run.read_or("tags", get(row, "tags").and_then(json).map_err(reason), BTreeMap::new());
    Ok(run)
}

/// Reads a row of `read_history.sql`.
pub(super) fn step_attempt(row: &SqliteRow) -> Result<StepAttempt> {
    Ok(StepAttempt {
        step_key: get(row, "step_key")?,
        attempt: get(row, "attempt")?,
        kind: word(row, "kind", StepKind::parse)?,
        status: word(row, "status", AttemptStatus::parse)?,
        position: get(row, "position")?,
        output: get(row, "output")?,
        error: error(row)?,
        epoch: get(row, "epoch")?,
        started_at: time(row, "started_at")?,
        completed_at: maybe_time(row, "completed_at")?,
    })
}

/// Reads a row of `read_ended.sql`.
pub(super) fn ended_run(row: &SqliteRow) -> Result<EndedRun> {
    let id = id(row, "id")?;
    let output = payload(row, "output", id, PayloadPlace::Output)?;
    Ok(EndedRun { id, status: status(row)?, output, error: error(row)? })
}

/// Reads a row of `read_inbox.sql`.
pub(super) fn inbox_signal(row: &SqliteRow) -> Result<Option<InboxSignal>> {
    let Some(seq) = get(row, "seq")? else { return Ok(None) };
    Ok(Some(InboxSignal { seq, name: get(row, "name")?, payload: get(row, "payload")? }))
}

/// Reads a row of `find_signals.sql`.
pub(super) fn accepted_signal(row: &SqliteRow) -> Result<AcceptedSignal> {
    Ok(AcceptedSignal::new(id(row, "run_id")?, get(row, "name")?, get(row, "payload")?, time(row, "created_at")?))
}

/// Reads a row of `list_approvals.sql` or `list_approvals_of_run.sql`.
pub(super) fn approval(row: &SqliteRow) -> Result<WaitingApproval> {
    Ok(WaitingApproval {
        run_id: id(row, "id")?,
        lane: maybe_lane(row)?.0,
        tags: get(row, "tags").and_then(json).unwrap_or_default(),
        step_key: get(row, "step_key")?,
        kind: word(row, "kind", StepKind::parse)?,
        output: get(row, "output")?,
        started_at: time(row, "started_at")?,
    })
}

/// Reads a row of `renew_claims.sql`.
pub(super) fn renewed(row: &SqliteRow) -> Result<Renewed> {
    Ok(Renewed {
        claim: claim(row)?,
        cancel_requested: maybe_time(row, "cancel_requested_at")?.is_some(),
        paused: maybe_time(row, "paused_at")?.is_some(),
        wakes: get(row, "wakes")?,
        is_extended: true,
    })
}

/// Reads the id of a run from this column.
pub(super) fn id(row: &SqliteRow, column: &str) -> Result<RunId> {
    let text: String = get(row, column)?;
    text.parse().map_err(|error| corrupt(OPERATION, error))
}

/// Reads the id of a run from this column, if it has one.
pub(super) fn maybe_id(row: &SqliteRow, column: &str) -> Result<Option<RunId>> {
    let text: Option<String> = get(row, column)?;
    text.map(|text| text.parse().map_err(|error| corrupt(OPERATION, error))).transpose()
}

fn parent(row: &SqliteRow) -> Result<Option<Parent>> {
    let Some(run_id) = maybe_id(row, "parent_run_id")? else { return Ok(None) };
    let on_end = word(row, "on_parent_end", OnParentEnd::parse)?;
    Ok(Some(Parent { run_id, step_key: get(row, "parent_step_key")?, on_end }))
}

fn trace(row: &SqliteRow) -> Result<Option<TraceContext>> {
    let text: Option<String> = get(row, "trace")?;
    text.map(|text| text.parse().map_err(|error| corrupt(OPERATION, error))).transpose()
}

fn single(row: &SqliteRow) -> Result<Option<SingleKey>> {
    let Some(key) = get(row, "single_key")? else { return Ok(None) };
    Ok(Some(SingleKey { key, until: word(row, "single_until", SingleUntil::parse)? }))
}

/// Reads the status of a run.
pub(super) fn status(row: &SqliteRow) -> Result<RunStatus> {
    word(row, "status", RunStatus::parse)
}

/// Reads a value of this column.
pub(super) fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).during(OPERATION)
}

/// Reads the id of a worker.
pub(super) fn worker_id(text: &str) -> Result<WorkerId> {
    uuid::Uuid::from_str(text).map(WorkerId::from).map_err(|error| corrupt(OPERATION, error))
}

fn claim(row: &SqliteRow) -> Result<Claim> {
    Ok(Claim { run_id: id(row, "id")?, epoch: get(row, "epoch")? })
}

/// Reads the lane of a run. If its row is missing, queue and version are empty, and a text says so.
fn maybe_lane(row: &SqliteRow) -> Result<(Lane, Option<String>)> {
    if get::<Option<&str>>(row, "queue")?.is_some() {
        return Ok((lane(row)?, None));
    }
    let lane = Lane { queue: String::new(), workflow: get(row, "workflow_name")?, version: String::new() };
    Ok((lane, Some("lane_id: there is no such lane".to_owned())))
}

/// Reads a queue, a workflow and its version.
pub(super) fn lane(row: &SqliteRow) -> Result<Lane> {
    Ok(Lane { queue: get(row, "queue")?, workflow: get(row, "workflow_name")?, version: get(row, "version")? })
}

fn worker(row: &SqliteRow) -> Result<Option<WorkerId>> {
    let text: Option<String> = get(row, "worker_id")?;
    text.as_deref().map(worker_id).transpose()
}

/// Reads a time from this column.
pub(super) fn time(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

pub(super) fn maybe_time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    get::<Option<i64>>(row, column).map(|micros| micros.map(Timestamp::from_micros))
}

fn error(row: &SqliteRow) -> Result<Option<StoredError>> {
    Ok(lossy(row, "error")?.as_deref().map(StoredError::from_stored))
}

/// Reads a text, with a replacement character in the place of bytes that are not UTF-8. SQLite does
/// not check the encoding of a text.
fn lossy<'r>(row: &'r SqliteRow, column: &str) -> Result<Option<Cow<'r, str>>> {
    Ok(get::<Option<&[u8]>>(row, column)?.map(String::from_utf8_lossy))
}

/// Reads a payload. One that is not UTF-8 is replaced by a description of it.
fn payload(row: &SqliteRow, column: &str, id: RunId, place: PayloadPlace<'_>) -> Result<Option<String>> {
    let unreadable = || {
        let context = PayloadContext::new(id, place);
        UnreadablePayload::new(&context, None, UnreadableReason::Malformed).to_text()
    };
    let read = |bytes: &[u8]| std::str::from_utf8(bytes).map_or_else(|_| unreadable(), str::to_owned);
    Ok(get::<Option<&[u8]>>(row, column)?.map(read))
}

/// Returns the reason of an error without the name of the operation.
fn reason(error: DatabaseError) -> Box<dyn std::error::Error + Send + Sync> {
    error.source
}

/// Decodes JSON text that the engine wrote.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| corrupt(OPERATION, unquoted(error)))
}

/// Reads a word of this column.
pub(super) fn word<T>(row: &SqliteRow, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    let word: String = get(row, column)?;
    parse(&word).ok_or_else(|| corrupt(OPERATION, format!("{column} {word:?} is unknown to this version")))
}
