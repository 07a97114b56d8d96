//! Claims of due runs.

use std::collections::BTreeMap;
use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Lane, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun, distinct_lanes};

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
        lane.copied().ok_or_else(|| Failure::corrupt("a claim answered with a lane that it was not asked for"))
    }

    fn column(&self, part: fn(&Lane) -> &str) -> Vec<String> {
        self.0.iter().map(|lane| part(lane).to_owned()).collect()
    }
}

/// Claims due runs, from the lanes in turns.
pub(super) async fn claim(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    request: &ClaimRequest,
) -> Result<Claimed, Failure> {
    let mut rows = claim_from(connection, sql, clock, request, &Cursors::new()).await?;
    let now = time_of(&rows)?;
    Ok(Claimed { runs: in_order(runs(&mut rows, request, now)?), now })
}

/// Claims what another claim has left. Returns each run with the time since which it was due.
pub(super) async fn claim_rest(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    rest: &ClaimRequest,
) -> Result<Vec<(Timestamp, ClaimedRun)>, Failure> {
    let mut rows = claim_from(connection, sql, clock, rest, &Cursors::new()).await?;
    // The time of this statement, and not that of the claim before it.
    let now = time_of(&rows)?;
    runs(&mut rows, rest, now)
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
    let mut rows = claim_from(connection, sql, clock, request, &cursors).await?;
    let found = save_cursors(memory, (request, request.limit), &cursors, &rows)?;
    let now = time_of(&rows)?;
    let mut runs = runs(&mut rows, request, now)?;
    if !cursors.is_empty()
        && let Some(rest) = rest_of(request, found)
    {
        runs.extend(claim_rest(connection, sql, clock, &rest).await?);
    }
    Ok(Claimed { runs: in_order(runs), now })
}

/// Saves where the claim with these rows, of at most `limit` runs, has ended in each lane. Returns
/// the number of its runs.
pub(super) fn save_cursors(
    memory: &Memory,
    (request, limit): (&ClaimRequest, u32),
    resumed: &Cursors,
    rows: &[PgRow],
) -> Result<usize, Failure> {
    let (mut count, mut last) = (0, BTreeMap::<i64, Cursor>::new());
    for row in rows.iter().filter(|row| is_claimed(row)) {
        count += 1;
        let cursor = position(row)?;
        last.entry(row.try_get("lane")?).and_modify(|last| *last = cursor.max(*last)).or_insert(cursor);
    }
    let lanes = Lanes::of(&request.lanes);
    let cursors = last.into_iter().map(|(lane, cursor)| Ok((lanes.numbered(lane)?.clone(), cursor)));
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
    request: &ClaimRequest,
    cursors: &Cursors,
) -> Result<Vec<PgRow>, Failure> {
    let parts = Parts::CLAIM_RUNS.resumed(!cursors.is_empty()).with_lanes(request.lanes.len());
    let query = sql.parts(parts).query().bind(clock.fixed().map(Timestamp::as_micros));
    Ok(bind_cursors(bind(query, request, request.limit), request, cursors).fetch_all(connection).await?)
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

/// Binds where a claim begins to look in each of its lanes, after [`bind`].
pub(super) fn bind_cursors<'q>(
    query: Query<'q, Postgres, PgArguments>,
    request: &ClaimRequest,
    cursors: &Cursors,
) -> Query<'q, Postgres, PgArguments> {
    let beginning = (i64::MIN, Uuid::nil());
    let from = |lane| cursors.get(lane).map_or(beginning, |(at, id)| (at.as_micros(), id.as_uuid()));
    let (times, ids): (Vec<i64>, Vec<Uuid>) = Lanes::of(&request.lanes).0.into_iter().map(from).unzip();
    query.bind(times).bind(ids)
}

/// Returns these claimed runs, the longest due first.
pub(super) fn in_order(mut runs: Vec<(Timestamp, ClaimedRun)>) -> Vec<ClaimedRun> {
    runs.sort_by_key(|(due_at, run)| (*due_at, run.claim.run_id));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Returns the time of a statement that may claim. There is always a row with the time.
pub(super) fn time_of(rows: &[PgRow]) -> Result<Timestamp, Failure> {
    row::time(rows.first().ok_or_else(|| Failure::corrupt("a statement answered nothing"))?, "now")
}

/// Reads the claimed runs in these rows, each with the time since which it was due, the longest due
/// first.
pub(super) fn runs(
    rows: &mut [PgRow],
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Vec<(Timestamp, ClaimedRun)>, Failure> {
    // The row that has the time has no position, and comes first.
    rows.sort_by_cached_key(|row| position(row).ok());
    let lanes = Lanes::of(&request.lanes);
    let run = |row: &PgRow| {
        let lane = lanes.numbered(row.try_get("lane")?)?;
        let run = row::claimed_run(row, lane.clone(), now, now + request.lease)?;
        Ok((row::time(row, "due_at")?, run))
    };
    rows.iter().filter(|row| is_claimed(row)).map(run).collect()
}

/// Returns the position of a claimed run in the order of claims.
fn position(row: &PgRow) -> Result<Cursor, Failure> {
    Ok((row::time(row, "due_at")?, row::run_id(row)?))
}

fn is_claimed(row: &PgRow) -> bool {
    !matches!(row.try_get::<Option<Uuid>, _>("id"), Ok(None))
}
