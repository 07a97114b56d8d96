//! Reads rows into the model. In a row of a run, a value that cannot be understood is noted beside
//! the others, because one bad row must not hide the others of a list or stop a claim. Elsewhere it
//! is an error of kind [`DatabaseErrorKind::Corrupt`](workflow_engine::store::DatabaseErrorKind).

use std::collections::BTreeMap;

use serde::Deserialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use workflow_engine::model::{
    AcceptedSignal, AttemptStatus, Claim, InboxSignal, InvalidTraceContext, Lane, OnParentEnd, Parent, Rank, Run,
    RunId, RunStatus, SingleKey, SingleUntil, StepAttempt, StepKind, StoredError, Timestamp, TraceContext, WorkerId,
    unquoted,
};
use workflow_engine::store::{ClaimedRun, EndedRun, WaitingApproval};

use super::error::Failure;

/// A row of `list_runs.sql`.
pub(super) fn listed_run(row: &PgRow) -> Result<Run, Failure> {
    let mut run = run(row)?;
    if row.try_get("is_error_long")? {
        run.error = Some(StoredError::too_long_for_a_list());
    }
    Ok(run)
}

/// A row of `read_run.sql` or `list_runs.sql`.
pub(super) fn run(row: &PgRow) -> Result<Run, Failure> {
    let (lane, no_lane) = lane_if_any(row)?;
    let mut run =
        Run::pending(run_id(row)?, lane, row.try_get("input")?, time(row, "available_at")?, time(row, "created_at")?);
    run.unreadable.extend(no_lane);
    run.gate = row.try_get::<Option<String>, _>("gate")?.filter(|gate| !gate.is_empty());
    run.status = run.read_or("status", run_status(row.try_get("status")?), RunStatus::Parked);
    run.output = row.try_get("output")?;
    run.read_error(row.try_get("error")?);
    run.key = row.try_get("key")?;
    run.single = run.read_or("single_until", single(row), None);
    let rank = Rank::numbered(row.try_get("rank")?);
    run.priority = run.read_or("rank", rank.map(Rank::priority), None);
    run.worker_id = row.try_get::<Option<Uuid>, _>("worker_id")?.map(WorkerId::from);
    run.epoch = row.try_get("epoch")?;
    run.wakes = row.try_get("wakes")?;
    run.crashes = row.try_get("crashes")?;
    run.lone_crashes = row.try_get::<Option<i64>, _>("lone_crashes")?.unwrap_or(0);
    run.attempt = row.try_get("attempt")?;
    run.generation = row.try_get("generation")?;
    run.depth = row.try_get("depth")?;
    run.trace = run.read_or("trace", trace(row.try_get("trace")?), None);
    run.parent = run.read_or("on_parent_end", parent(row), None);
    run.deadline_at = time_if_any(row, "deadline_at")?;
    run.cancel_requested_at = time_if_any(row, "cancel_requested_at")?;
    run.paused_at = time_if_any(row, "paused_at")?;
    run.started_at = time_if_any(row, "started_at")?;
    run.completed_at = time_if_any(row, "completed_at")?;
    run.tags = run.read_or("tags", serde_json::from_str(row.try_get("tags")?).map_err(unquoted), BTreeMap::new());
    Ok(run)
}

/// A row of `claim_runs.sql`, of a claim that was made then.
pub(super) fn claimed_run(
    row: &PgRow,
    lane: Lane,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<ClaimedRun, Failure> {
    let rest: Option<&str> = row.try_get("rest")?;
    let rest = rest.map(serde_json::from_str::<ClaimedRest>).transpose().map_err(unquoted).map_err(Failure::corrupt)?;
    let rest = rest.unwrap_or_else(|| ClaimedRest::usual(now));
    let error = rest.9.as_deref().map(StoredError::from_stored);
    Ok(ClaimedRun {
        claim: claim(row)?,
        lane,
        gate: None,
        input: row.try_get("input")?,
        wakes: rest.0,
        crashes: rest.1,
        lone_crashes: rest.10.unwrap_or(0),
        taken_over: false,
        attempt: rest.2,
        generation: rest.3,
        depth: rest.4,
        trace: trace(rest.11.as_deref()).unwrap_or_default(),
        parent_run_id: rest.5,
        deadline_at: rest.6,
        cancel_requested: rest.7.is_some(),
        created_at: time(row, "created_at")?,
        started_at: rest.8,
        lease_until,
        unreadable: error.as_ref().and_then(StoredError::why_not_understood),
        error,
    })
}

/// Of a claimed run, what most have not: `rest`, in its order.
#[derive(Deserialize)]
struct ClaimedRest(
    i64,
    i64,
    i64,
    i64,
    i64,
    Option<RunId>,
    Option<Timestamp>,
    Option<Timestamp>,
    Timestamp,
    Option<String>,
    Option<i64>,
    Option<String>,
);

impl ClaimedRest {
    /// Of a run without any of it, which was claimed for the first time then.
    fn usual(now: Timestamp) -> Self {
        Self(0, 0, 1, 0, 0, None, None, None, now, None, None, None)
    }
}

/// A row of `read_ended.sql`.
pub(super) fn ended_run(row: &PgRow) -> Result<EndedRun, Failure> {
    Ok(EndedRun {
        id: run_id(row)?,
        status: run_status(row.try_get("status")?)?,
        output: row.try_get("output")?,
        error: stored_error(row)?,
    })
}

/// A row of `read_inbox.sql`.
pub(super) fn inbox_signal(row: &PgRow) -> Result<Option<InboxSignal>, Failure> {
    let Some(seq) = row.try_get("seq")? else { return Ok(None) };
    Ok(Some(InboxSignal { seq, name: row.try_get("name")?, payload: row.try_get("payload")? }))
}

/// A row of `find_signals.sql`.
pub(super) fn accepted_signal(row: &PgRow) -> Result<AcceptedSignal, Failure> {
    Ok(AcceptedSignal::new(run_id(row)?, row.try_get("name")?, row.try_get("payload")?, time(row, "created_at")?))
}

/// A row of `list_approvals.sql` or `list_approvals_of_run.sql`.
pub(super) fn approval(row: &PgRow) -> Result<WaitingApproval, Failure> {
    let (kind, tags): (&str, &str) = (row.try_get("kind")?, row.try_get("tags")?);
    Ok(WaitingApproval {
        run_id: run_id(row)?,
        lane: lane_if_any(row)?.0,
        tags: serde_json::from_str(tags).unwrap_or_default(),
        step_key: row.try_get("step_key")?,
        kind: StepKind::parse(kind).ok_or_else(|| unknown_word("kind of step", kind))?,
        output: row.try_get("output")?,
        started_at: time(row, "started_at")?,
    })
}

/// A row of `read_history.sql`.
pub(super) fn step_attempt(row: &PgRow) -> Result<StepAttempt, Failure> {
    let (kind, status): (&str, &str) = (row.try_get("kind")?, row.try_get("status")?);
    Ok(StepAttempt {
        step_key: row.try_get("step_key")?,
        attempt: row.try_get("attempt")?,
        kind: StepKind::parse(kind).ok_or_else(|| unknown_word("kind of step", kind))?,
        status: AttemptStatus::parse(status).ok_or_else(|| unknown_word("status of an attempt", status))?,
        position: row.try_get("position")?,
        output: row.try_get("output")?,
        error: stored_error(row)?,
        epoch: row.try_get("epoch")?,
        started_at: time(row, "started_at")?,
        completed_at: time_if_any(row, "completed_at")?,
    })
}

/// The place in a trace. A drive goes on without one that it does not understand.
fn trace(text: Option<&str>) -> Result<Option<TraceContext>, InvalidTraceContext> {
    text.map(str::parse).transpose()
}

fn parent(row: &PgRow) -> Result<Option<Parent>, Failure> {
    let Some(run_id) = row.try_get::<Option<Uuid>, _>("parent_run_id")?.map(RunId::from) else { return Ok(None) };
    let word: &str = row.try_get("on_parent_end")?;
    let on_end = OnParentEnd::parse(word).ok_or_else(|| unknown_word("policy for the end of a parent", word))?;
    Ok(Some(Parent { run_id, step_key: row.try_get("parent_step_key")?, on_end }))
}

fn single(row: &PgRow) -> Result<Option<SingleKey>, Failure> {
    let Some(key) = row.try_get("single_key")? else { return Ok(None) };
    let word: &str = row.try_get("single_until")?;
    let until = SingleUntil::parse(word).ok_or_else(|| Failure::corrupt(super::single::unknown(word)))?;
    Ok(Some(SingleKey { key, until }))
}

/// The columns `id` and `epoch`.
pub(super) fn claim(row: &PgRow) -> Result<Claim, Failure> {
    Ok(Claim { run_id: run_id(row)?, epoch: row.try_get("epoch")? })
}

/// The column `id`.
pub(super) fn run_id(row: &PgRow) -> Result<RunId, Failure> {
    Ok(row.try_get::<Uuid, _>("id")?.into())
}

/// The status of a run that this word stands for.
pub(super) fn run_status(word: &str) -> Result<RunStatus, Failure> {
    RunStatus::parse(word).ok_or_else(|| unknown_word("status of a run", word))
}

/// A column that holds a time.
pub(super) fn time(row: &PgRow, column: &str) -> Result<Timestamp, Failure> {
    Ok(Timestamp::from_micros(row.try_get(column)?))
}

/// A column that may hold a time.
pub(super) fn time_if_any(row: &PgRow, column: &str) -> Result<Option<Timestamp>, Failure> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_micros))
}

/// The lane of a run. If its row is missing, queue and version are empty, and a text says so.
fn lane_if_any(row: &PgRow) -> Result<(Lane, Option<String>), Failure> {
    if row.try_get::<Option<&str>, _>("queue")?.is_some() {
        return Ok((lane(row)?, None));
    }
    let lane = Lane { queue: String::new(), workflow: row.try_get("workflow_name")?, version: String::new() };
    Ok((lane, Some("lane_id: there is no such lane".to_owned())))
}

/// The columns `queue`, `workflow_name` and `version`.
pub(super) fn lane(row: &PgRow) -> Result<Lane, Failure> {
    Ok(Lane { queue: row.try_get("queue")?, workflow: row.try_get("workflow_name")?, version: row.try_get("version")? })
}

fn stored_error(row: &PgRow) -> Result<Option<StoredError>, Failure> {
    let text: Option<&str> = row.try_get("error")?;
    Ok(text.map(StoredError::from_stored))
}

fn unknown_word(what: &str, word: &str) -> Failure {
    Failure::corrupt(format!("{word:?} is no {what} that this program knows"))
}
