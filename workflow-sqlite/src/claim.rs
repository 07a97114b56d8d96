//! Claims of due runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use workflow_engine::faults::altered;
use workflow_engine::model::{Claim, Lane, Rank, RunId, StoredError, Timestamp};
use workflow_engine::store::{
    ClaimPlace, ClaimRequest, ClaimedRun, DatabaseError, DueRuns, GateTurn, claim_places, take_turns,
};

use super::error::{During, corrupt};
use super::{row, sql};

const OPERATION: &str = "claim runs";

/// The reason why the input of a run is not understood.
const NOT_UTF8: &str = "input: it is not UTF-8";

/// A due run that a claim is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueRun {
    id: RunId,
    /// The run is running, and its lease has ended.
    is_lapsed: bool,
}

/// Claims due runs, from the lanes in turns.
pub(super) async fn claim(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    gates: &[GateTurn],
    kind: DueRuns,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>, DatabaseError> {
    let places = claim_places(request, gates);
    let (behind, lanes): (Vec<_>, Vec<_>) = places.iter().copied().partition(|place| place.gate.is_some());
    let mut of_lanes = find(&mut *connection, &lanes, request.limit, now).await?.into_iter();
    // Each gate gives few runs, so no more are read of it.
    let mut of_gates = match gates.iter().map(|gate| gate.at_most).max() {
        Some(at_most) => find(&mut *connection, &behind, at_most, now).await?.into_iter(),
        None => Vec::new().into_iter(),
    };
    let found = |place: &ClaimPlace<'_>| if place.gate.is_some() { of_gates.next() } else { of_lanes.next() };
    let found: Vec<String> = places.iter().filter_map(found).collect();
    let due = due_of(&found, &places, request.limit, kind)?;
    // Without a change the transaction writes nothing, so an idle poll costs no sync of the disk.
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let take = take(sql::CLAIM, request, &due, now)?;
    let rows = take.fetch_all(&mut *connection).await.during(OPERATION)?;
    Taken::of(&rows, &due)?.complete(connection).await
}

/// Finds at most `limit` due runs of each kind in each of these places.
async fn find(
    connection: &mut SqliteConnection,
    places: &[ClaimPlace<'_>],
    limit: u32,
    now: Timestamp,
) -> Result<Vec<String>, DatabaseError> {
    let time = now.as_micros();
    let query = sqlx::query_scalar(sql::FIND_DUE_RUNS).bind(time).bind(limit).bind(time).bind(limit);
    query.bind(lanes_of(places)?).fetch_all(connection).await.during(OPERATION)
}

/// Returns the lanes and gates of a claim as `find_due_runs.sql` takes them.
pub(super) fn lanes_of(places: &[ClaimPlace<'_>]) -> Result<String, DatabaseError> {
    let names = |place: &ClaimPlace<'_>| {
        let Lane { queue, workflow, version } = place.lane;
        (queue.clone(), workflow.clone(), version.clone(), place.gate.unwrap_or_default().to_owned())
    };
    serde_json::to_string(&places.iter().map(names).collect::<Vec<_>>()).during(OPERATION)
}

/// Selects from the runs that `find_due_runs.sql` found in each of these places: the places in
/// turns, and of each place the longest due first, counted with the head start of its rank. Returns
/// them in that order.
pub(super) fn due_of(
    found: &[String],
    places: &[ClaimPlace<'_>],
    limit: u32,
    kind: DueRuns,
) -> Result<Vec<DueRun>, DatabaseError> {
    let mut lanes = Vec::with_capacity(found.len());
    for (lane, place) in found.iter().zip(places) {
        let mut waiting: Vec<Vec<(Timestamp, RunId)>> = row::json(lane)?;
        // The runs of each rank come first, then those whose lease has ended, which have begun.
        let lapsed = waiting.pop().unwrap_or_default();
        let is_wanted = |rank: Rank| match kind {
            DueRuns::All => true,
            DueRuns::Begun => rank == Rank::Begun,
            DueRuns::New => rank != Rank::Begun,
            DueRuns::Lapsed => false,
        };
        let waiting = Rank::ALL.into_iter().zip(waiting).filter(|(rank, _)| is_wanted(*rank));
        let lapsed = Some((Rank::Begun, lapsed)).filter(|_| kind != DueRuns::New);
        let in_order = |(rank, runs): (Rank, Vec<(Timestamp, RunId)>), is_lapsed: bool| {
            runs.into_iter().map(move |(due_at, id)| (rank.order_at(due_at), DueRun { id, is_lapsed }))
        };
        let waiting = waiting.flat_map(|runs| in_order(runs, false));
        let lapsed = lapsed.into_iter().flat_map(|runs| in_order(runs, true));
        let mut due: Vec<_> = waiting.chain(lapsed).collect();
        due.sort_unstable();
        due.truncate(place.at_most as usize);
        lanes.push(place.turns(due));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut due = take_turns(lanes, limit);
    due.sort_unstable();
    Ok(due.into_iter().map(|(_, run)| run).collect())
}

/// Returns the script, which is `CLAIM` or begins with it, with these runs as its parameters.
pub(super) fn take(
    script: &'static str,
    request: &ClaimRequest,
    due: &[DueRun],
    now: Timestamp,
) -> Result<Query<'static, Sqlite, SqliteArguments>, DatabaseError> {
    let claim = "SET epoch = epoch + 1,";
    let counts = "SET epoch = epoch + 1, crashes = crashes + (status = 'running'),";
    let script = altered("lapse-counts-crash", script, claim, counts);
    let script = altered("rank-ignored", script, "rank = 0, status = 'running'", "status = 'running'");
    let ids: Vec<RunId> = due.iter().map(|run| run.id).collect();
    let due = Arc::<str>::from(serde_json::to_string(&ids).during(OPERATION)?);
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
    pub(super) fn of(rows: &[SqliteRow], due: &[DueRun]) -> Result<Self, DatabaseError> {
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
        let run = |due: &DueRun| Some(ClaimedRun { taken_over: due.is_lapsed, ..claimed.remove(&due.id)? });
        Ok(Self { runs: due.iter().filter_map(run).collect(), without_input })
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
    String,
    Option<String>,
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
            gate: Some(self.19).filter(|gate| !gate.is_empty()),
            input,
            wakes,
            crashes,
            lone_crashes: self.17.unwrap_or(0),
            taken_over: false,
            attempt,
            generation,
            depth,
            // A drive goes on without a place in a trace that it does not understand.
            trace: self.20.and_then(|text| text.parse().ok()),
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
