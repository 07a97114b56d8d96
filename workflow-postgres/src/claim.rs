//! Claims of due runs.

use std::collections::BTreeMap;
use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Lane, Rank, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun, DueRuns, GateTurn, claim_places, distinct_lanes};

use super::claim_cursor::{Cursor, Cursors};
use super::context::{Context, Memory};
use super::error::Failure;
use super::parts::Parts;
use super::row;
use super::sql::Sql;
use super::start::micros;

/// Lanes as the three arrays of a statement, each lane once: a run that two entries name would
/// count twice.
pub(super) struct Lanes<'l>(Vec<&'l Lane>);

impl<'l> Lanes<'l> {
    /// Returns these lanes in their order.
    pub(super) fn of(lanes: &'l [Lane]) -> Self {
        Self(distinct_lanes(lanes))
    }

    /// Binds queues, workflows and versions.
    pub(super) fn bind<'q>(&self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(self.column(|lane| &lane.queue))
            .bind(self.column(|lane| &lane.workflow))
            .bind(self.column(|lane| &lane.version))
    }

    /// Returns the lane with this number in those arrays, counted from 1.
    fn numbered(&self, number: i64) -> Result<&'l Lane, Failure> {
        let lane = usize::try_from(number - 1).ok().and_then(|index| self.0.get(index));
        lane.copied().ok_or_else(unknown_lane)
    }

    fn column(&self, part: fn(&Lane) -> &str) -> Vec<String> {
        self.0.iter().map(|lane| part(lane).to_owned()).collect()
    }
}

fn unknown_lane() -> Failure {
    Failure::corrupt("a claim answered with a lane that it was not asked for")
}

/// A place behind every waiting run.
const END: (i64, Uuid) = (i64::MAX, Uuid::nil());

/// Claims due runs of these, from the lanes in turns.
pub(super) async fn claim(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    (request, gates): (&ClaimRequest, &[GateTurn]),
    due: DueRuns,
) -> Result<Claimed, Failure> {
    let rows = claim_from(connection, sql, clock, (request, gates), due, &Cursors::new()).await?;
    let now = time_of(&rows)?;
    Ok(Claimed {
        runs: in_order(runs(&rows, (request, gates), now)?),
        held_back: Vec::new(),
        full_gates: Vec::new(),
        next_at: None,
        now,
    })
}

/// Claims what another claim has left. Returns each run with the time that decides its place.
pub(super) async fn claim_rest(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    rest: &ClaimRequest,
) -> Result<Vec<(Timestamp, ClaimedRun)>, Failure> {
    let rows = claim_from(connection, sql, clock, (rest, &[]), DueRuns::All, &Cursors::new()).await?;
    // The time of this statement, and not that of the claim before it.
    let now = time_of(&rows)?;
    runs(&rows, (rest, &[]), now)
}

/// Claims due runs from the cursors that earlier claims left, and from the beginning if that was
/// not enough.
pub(super) async fn claim_resumed(
    connection: &mut PgConnection,
    Context { sql, clock, .. }: Context<'_>,
    memory: &Memory,
    request: &ClaimRequest,
) -> Result<Claimed, Failure> {
    let cursors = memory.lock().cursor.of(request, Instant::now());
    let rows = claim_from(connection, sql, clock, (request, &[]), DueRuns::All, &cursors).await?;
    let found = save_cursors(memory, (request, request.limit), &cursors, &rows)?;
    let now = time_of(&rows)?;
    let mut runs = runs(&rows, (request, &[]), now)?;
    if !cursors.is_empty()
        && let Some(rest) = rest_of(request, found)
    {
        runs.extend(claim_rest(connection, sql, clock, &rest).await?);
    }
    Ok(Claimed { runs: in_order(runs), held_back: Vec::new(), full_gates: Vec::new(), next_at: None, now })
}

/// Saves where the claim with these rows, of at most `limit` runs, has ended in each rank of each
/// lane. Returns the number of its runs.
pub(super) fn save_cursors(
    memory: &Memory,
    (request, limit): (&ClaimRequest, u32),
    resumed: &Cursors,
    rows: &[PgRow],
) -> Result<usize, Failure> {
    let (mut count, mut last) = (0, BTreeMap::<(i64, Rank), Cursor>::new());
    for row in rows.iter().filter(|row| is_claimed(row)) {
        count += 1;
        // A run whose lease has ended was found by another index.
        let Some(rank) = rank(row)? else { continue };
        let cursor = position(row)?;
        last.entry((row.try_get("lane")?, rank)).and_modify(|last| *last = cursor.max(*last)).or_insert(cursor);
    }
    let lanes = Lanes::of(&request.lanes);
    let cursors = last.into_iter().map(|((lane, rank), cursor)| Ok(((lanes.numbered(lane)?.clone(), rank), cursor)));
    let cursors: Cursors = cursors.collect::<Result<_, Failure>>()?;
    let full_until = Some(cursors).filter(|_| count >= limit as usize);
    memory.lock().cursor.save(request, !resumed.is_empty(), full_until, Instant::now());
    Ok(count)
}

/// Returns the claim of what is left after so many runs; `None` if nothing is. A caller takes a
/// short answer to mean that nothing else is due.
pub(super) fn rest_of(request: &ClaimRequest, found: usize) -> Option<ClaimRequest> {
    let limit = request.limit.saturating_sub(u32::try_from(found).unwrap_or(u32::MAX));
    (limit > 0).then(|| ClaimRequest { limit, ..request.clone() })
}

async fn claim_from(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    (request, gates): (&ClaimRequest, &[GateTurn]),
    due: DueRuns,
    cursors: &Cursors,
) -> Result<Vec<PgRow>, Failure> {
    let is_without_lapsed = due == DueRuns::New || !cursors.is_empty();
    let parts = Parts::CLAIM_RUNS.resumed(is_without_lapsed).with_lanes(request.lanes.len()).with_gates(gates.len());
    let query = sql.parts(parts).query().bind(clock.fixed().map(Timestamp::as_micros));
    let places = claim_places(request, gates);
    let column = |of: fn(&Lane) -> &str| places.iter().map(|place| of(place.lane).to_owned()).collect::<Vec<_>>();
    let query = query.bind(column(|lane| &lane.queue)).bind(column(|lane| &lane.workflow));
    let query = query.bind(column(|lane| &lane.version)).bind(i64::from(request.limit));
    let query = query.bind(request.worker.as_uuid()).bind(micros(request.lease));
    let lanes = Lanes(places.iter().map(|place| place.lane).collect());
    let is_wanted = |rank| match due {
        DueRuns::All => true,
        DueRuns::Begun => rank == Rank::Begun,
        DueRuns::New => rank != Rank::Begun,
        DueRuns::Lapsed => false,
    };
    let query = bind_beginnings(query, &lanes, |lane, rank| match is_wanted(rank) {
        true => from(cursors, lane, rank),
        false => END,
    });
    if gates.is_empty() {
        return Ok(query.fetch_all(connection).await?);
    }
    let query = query
        .bind(places.iter().map(|place| place.gate.unwrap_or_default().to_owned()).collect::<Vec<_>>())
        .bind(places.iter().map(|place| i64::from(place.weight)).collect::<Vec<_>>())
        .bind(places.iter().map(|place| i64::from(place.at_most)).collect::<Vec<_>>())
        .bind(places.iter().map(|place| i64::from(place.given)).collect::<Vec<_>>());
    Ok(query.fetch_all(connection).await?)
}

/// Binds a claim of at most `limit` runs.
pub(super) fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    request: &ClaimRequest,
    limit: u32,
) -> Query<'q, Postgres, PgArguments> {
    let query = Lanes::of(&request.lanes).bind(query);
    query.bind(i64::from(limit)).bind(request.worker.as_uuid()).bind(micros(request.lease))
}

/// Binds where a claim begins to look in each rank of each of its lanes, after [`bind`].
pub(super) fn bind_cursors<'q>(
    query: Query<'q, Postgres, PgArguments>,
    request: &ClaimRequest,
    cursors: &Cursors,
) -> Query<'q, Postgres, PgArguments> {
    bind_beginnings(query, &Lanes::of(&request.lanes), |lane, rank| from(cursors, lane, rank))
}

/// Returns where a claim with these cursors begins to look in this rank of this lane.
fn from(cursors: &Cursors, lane: &Lane, rank: Rank) -> (i64, Uuid) {
    let cursor = if cursors.is_empty() { None } else { cursors.get(&(lane.clone(), rank)) };
    cursor.map_or((i64::MIN, Uuid::nil()), |(at, id)| (at.as_micros(), id.as_uuid()))
}

/// Binds where a claim begins to look.
fn bind_beginnings<'q>(
    query: Query<'q, Postgres, PgArguments>,
    lanes: &Lanes<'_>,
    from: impl Fn(&Lane, Rank) -> (i64, Uuid),
) -> Query<'q, Postgres, PgArguments> {
    let ranks = |lane: &&Lane| Rank::ALL.map(|rank| from(lane, rank));
    let (times, ids): (Vec<i64>, Vec<Uuid>) = lanes.0.iter().flat_map(ranks).unzip();
    query.bind(times).bind(ids)
}

/// Returns these claimed runs in the order of the times beside them.
pub(super) fn in_order(mut runs: Vec<(Timestamp, ClaimedRun)>) -> Vec<ClaimedRun> {
    runs.sort_by_key(|(order_at, run)| (*order_at, run.claim.run_id));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Returns the time of a statement that may claim. There is always a row with the time.
pub(super) fn time_of(rows: &[PgRow]) -> Result<Timestamp, Failure> {
    row::time(rows.first().ok_or_else(|| Failure::corrupt("a statement answered nothing"))?, "now")
}

/// Reads the claimed runs in these rows, each with the time that decides its place among them.
pub(super) fn runs(
    rows: &[PgRow],
    (request, gates): (&ClaimRequest, &[GateTurn]),
    now: Timestamp,
) -> Result<Vec<(Timestamp, ClaimedRun)>, Failure> {
    let places = claim_places(request, gates);
    let run = |row: &PgRow| {
        let index = usize::try_from(row.try_get::<i64, _>("lane")? - 1).unwrap_or(usize::MAX);
        let place = places.get(index).ok_or_else(unknown_lane)?;
        let mut run = row::claimed_run(row, place.lane.clone(), now, now + request.lease)?;
        run.gate = place.gate.map(str::to_owned);
        let rank = rank(row)?;
        run.taken_over = rank.is_none();
        let rank = rank.unwrap_or(Rank::Begun);
        Ok((rank.order_at(row::time(row, "due_at")?), run))
    };
    rows.iter().filter(|row| is_claimed(row)).map(run).collect()
}

/// Returns the rank that a claimed run had before; `None` if its lease had ended.
fn rank(row: &PgRow) -> Result<Option<Rank>, Failure> {
    row.try_get::<Option<i16>, _>("rank")?.map(Rank::numbered).transpose().map_err(Failure::corrupt)
}

/// Returns the position of a claimed run among the waiting ones of its rank.
fn position(row: &PgRow) -> Result<Cursor, Failure> {
    Ok((row::time(row, "due_at")?, row::run_id(row)?))
}

fn is_claimed(row: &PgRow) -> bool {
    !matches!(row.try_get::<Option<Uuid>, _>("id"), Ok(None))
}
