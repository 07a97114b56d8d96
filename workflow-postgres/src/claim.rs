//! Claims of due runs.

use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Lane, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun};

use super::claim_cursor::Cursor;
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
    /// Returns these lanes without duplicates.
    pub(super) fn of(lanes: &'l [Lane]) -> Self {
        let mut lanes: Vec<&Lane> = lanes.iter().collect();
        lanes.sort_unstable();
        lanes.dedup();
        Self(lanes)
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

/// Claims due runs, the longest due first.
pub(super) async fn claim(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    request: &ClaimRequest,
) -> Result<Claimed, Failure> {
    claimed(claim_from(connection, sql, clock, request, None).await?, request)
}

/// Claims due runs from the cursor that the last claim left, and from the beginning if that was not
/// enough.
pub(super) async fn claim_resumed(
    connection: &mut PgConnection,
    Context { sql, clock, .. }: Context<'_>,
    memory: &Memory,
    request: &ClaimRequest,
) -> Result<Claimed, Failure> {
    let cursor = memory.lock().cursor.of(request, Instant::now());
    let rows = claim_from(connection, sql, clock, request, cursor).await?;
    let found = save_cursor(memory, (request, request.limit), cursor, &rows)?;
    let mut claimed = claimed(rows, request)?;
    if cursor.is_some()
        && let Some(rest) = rest_of(request, found)
    {
        claimed.runs.extend(claim(connection, sql, clock, &rest).await?.runs);
    }
    Ok(claimed)
}

/// Saves where the claim with these rows, of at most `limit` runs, has ended. Returns the number of
/// its runs.
pub(super) fn save_cursor(
    memory: &Memory,
    (request, limit): (&ClaimRequest, u32),
    resumed: Option<Cursor>,
    rows: &[PgRow],
) -> Result<usize, Failure> {
    let (mut count, mut last) = (0, None);
    for row in rows.iter().filter(|row| is_claimed(row)) {
        count += 1;
        last = last.max(Some(position(row)?));
    }
    let full_until = last.filter(|_| count >= limit as usize);
    memory.lock().cursor.save(request, resumed.is_some(), full_until, Instant::now());
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
    cursor: Option<Cursor>,
) -> Result<Vec<PgRow>, Failure> {
    let parts = Parts::CLAIM_RUNS.resumed(cursor.is_some());
    let query = sql.parts(parts).query().bind(clock.fixed().map(Timestamp::as_micros));
    Ok(bind_cursor(bind(query, request, request.limit), cursor).fetch_all(connection).await?)
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

/// Binds where a claim begins to look, after [`bind`].
pub(super) fn bind_cursor<'q>(
    query: Query<'q, Postgres, PgArguments>,
    cursor: Option<Cursor>,
) -> Query<'q, Postgres, PgArguments> {
    let (at, id) = cursor.map_or((i64::MIN, Uuid::nil()), |(at, id)| (at.as_micros(), id.as_uuid()));
    query.bind(at).bind(id)
}

/// Reads the rows of a claim: the longest due run comes first. There is always a row with the time.
pub(super) fn claimed(mut rows: Vec<PgRow>, request: &ClaimRequest) -> Result<Claimed, Failure> {
    let now = time_of(&rows)?;
    let runs = runs(&mut rows, request, now)?.into_iter().map(|(_, run)| run);
    Ok(Claimed { runs: runs.collect(), now })
}

/// Returns the time of a statement that may claim.
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
