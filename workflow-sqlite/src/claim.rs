//! Claims of due runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use workflow_engine::faults::altered;
use workflow_engine::model::{Claim, Lane, RunId, StoredError, Timestamp};
use workflow_engine::store::{ClaimRequest, ClaimedRun, DatabaseError, distinct_lanes, take_turns};

use super::error::{During, corrupt};
use super::{row, sql};

const OPERATION: &str = "claim runs";

/// The reason why the input of a run is not understood.
const NOT_UTF8: &str = "input: it is not UTF-8";

/// Claims due runs, from the lanes in turns.
pub(super) async fn claim(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>, DatabaseError> {
    let (time, limit) = (now.as_micros(), request.limit);
    let query = sqlx::query_scalar(sql::FIND_DUE_RUNS).bind(time).bind(limit).bind(time).bind(limit);
    let found: Vec<String> = query.bind(lanes_of(request)?).fetch_all(&mut *connection).await.during(OPERATION)?;
    let due = due_of(&found, request)?;
    // Without a change the transaction writes nothing, so an idle poll costs no sync of the disk.
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let take = take(sql::CLAIM, request, &due, now)?;
    let rows = take.fetch_all(&mut *connection).await.during(OPERATION)?;
    Taken::of(&rows, &due)?.complete(connection).await
}

/// Returns the lanes of a claim as `find_due_runs.sql` takes them.
pub(super) fn lanes_of(request: &ClaimRequest) -> Result<String, DatabaseError> {
    let lanes: Vec<_> =
        distinct_lanes(&request.lanes).into_iter().map(|lane| (&lane.queue, &lane.workflow, &lane.version)).collect();
    serde_json::to_string(&lanes).during(OPERATION)
}

/// Selects from the runs that `find_due_runs.sql` found in each lane: the lanes in turns, and of
/// each lane the longest due first. Returns the longest due run first.
pub(super) fn due_of(found: &[String], request: &ClaimRequest) -> Result<Vec<RunId>, DatabaseError> {
    let mut lanes = Vec::with_capacity(found.len());
    for lane in found {
        // Waiting runs come first, then those whose lease has ended.
        let mut due: Vec<(i64, RunId)> = row::json(lane)?;
        due.sort_unstable();
        lanes.push(due);
    }
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut due = take_turns(lanes, limit);
    due.sort_unstable();
    Ok(due.into_iter().map(|(_, id)| id).collect())
}

/// Returns the script, which is `CLAIM` or begins with it, with these runs as its parameters.
pub(super) fn take(
    script: &'static str,
    request: &ClaimRequest,
    due: &[RunId],
    now: Timestamp,
) -> Result<Query<'static, Sqlite, SqliteArguments>, DatabaseError> {
    let claim = "SET epoch = epoch + 1,";
    let counts = "SET epoch = epoch + 1, crashes = crashes + (status = 'running'),";
    let script = altered("lapse-counts-crash", script, claim, counts);
    let due = Arc::<str>::from(serde_json::to_string(due).during(OPERATION)?);
    let query = sqlx::query(script).bind(request.worker.to_string()).bind((now + request.lease).as_micros());
    Ok(query.bind(now.as_micros()).bind(Arc::clone(&due)).bind(due))
}

/// Claimed runs. Those with a large input may still lack it.
pub(super) struct Taken {
    runs: Vec<ClaimedRun>,
    without_input: Vec<RunId>,
}

impl Taken {
    /// Reads the answer of [`take`]: the claimed runs in the order of `due`.
    pub(super) fn of(rows: &[SqliteRow], due: &[RunId]) -> Result<Self, DatabaseError> {
        let mut without_input = Vec::new();
        let mut claimed = HashMap::new();
        for row in rows {
            // SQLite does not check the encoding of a text. A replacement character marks the bytes
            // that are not UTF-8.
            let rows = String::from_utf8_lossy(row.try_get(0).during(OPERATION)?);
            let is_damaged = matches!(rows, Cow::Owned(_));
            for row in row::json::<Vec<ClaimedRow>>(&rows)? {
                if row.16.is_none() {
                    without_input.push(row.0);
                }
                claimed.insert(row.0, row.run(is_damaged));
            }
        }
        Ok(Self { runs: due.iter().filter_map(|id| claimed.remove(id)).collect(), without_input })
    }

    /// Reads the missing inputs. The claims may be committed already, because the input of a
    /// claimed run does not change.
    pub(super) async fn complete(
        mut self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<ClaimedRun>, DatabaseError> {
        if self.without_input.is_empty() {
            return Ok(self.runs);
        }
        let ids = serde_json::to_string(&self.without_input).during(OPERATION)?;
        let inputs = sqlx::query_as::<_, (String, Vec<u8>)>(sql::READ_INPUTS).bind(ids);
        let mut inputs: HashMap<String, Vec<u8>> =
            inputs.fetch_all(connection).await.during(OPERATION)?.into_iter().collect();
        if inputs.len() != self.without_input.len() {
            return Err(corrupt(OPERATION, "the input of a claimed run is missing"));
        }
        for run in &mut self.runs {
            if let Some(input) = inputs.remove(&run.claim.run_id.to_string()) {
                match String::from_utf8(input) {
                    Ok(input) => run.input = input,
                    Err(_) => run.unreadable = Some(NOT_UTF8.to_owned()),
                }
            }
        }
        Ok(self.runs)
    }
}

/// The columns of a claimed run, in the order of `read_claimed.sql`.
#[derive(Deserialize)]
struct ClaimedRow(
    RunId,
    i64,
    String,
    String,
    String,
    i64,
    i64,
    i64,
    i64,
    i64,
    Option<String>,
    Option<Timestamp>,
    Option<Timestamp>,
    Timestamp,
    Timestamp,
    Option<String>,
    Option<String>,
    Option<i64>,
    Timestamp,
);

impl ClaimedRow {
    /// Returns the claimed run. `is_damaged`: some text of the claim had bytes that are not UTF-8.
    fn run(self, is_damaged: bool) -> ClaimedRun {
        let Self(run_id, epoch, queue, workflow, version, wakes, crashes, attempt, generation, depth, ..) = self;
        let (parent_run_id, deadline_at, cancel_requested_at, started_at) = (self.10, self.11, self.12, self.13);
        let parent = parent_run_id.as_deref().map(str::parse::<RunId>).transpose();
        let error = self.15.as_deref().map(StoredError::from_stored);
        let input = self.16.unwrap_or_default();
        let not_utf8 = || (is_damaged && input.contains(char::REPLACEMENT_CHARACTER)).then(|| NOT_UTF8.to_owned());
        let no_parent = || parent.as_ref().err().map(|why| format!("parent_run_id: {why}"));
        let unreadable = error.as_ref().and_then(StoredError::why_not_understood).or_else(no_parent).or_else(not_utf8);
        ClaimedRun {
            claim: Claim { run_id, epoch },
            lane: Lane { queue, workflow, version },
            input,
            wakes,
            crashes,
            lone_crashes: self.17.unwrap_or(0),
            attempt,
            generation,
            depth,
            parent_run_id: parent.ok().flatten(),
            deadline_at,
            cancel_requested: cancel_requested_at.is_some(),
            created_at: self.18,
            started_at,
            lease_until: self.14,
            error,
            unreadable,
        }
    }
}
