use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Lane, NewRun, RunId, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed};

use super::claim_start::Place;
use super::commit::Memory;
use super::error::Failure;
use super::row;
use super::sql::Sql;
use super::start::micros;

/// Lanes as the three arrays of a statement, each lane once: a run that two entries name would count twice.
pub(super) struct Lanes<'l>(Vec<&'l Lane>);

impl<'l> Lanes<'l> {
    /// These lanes.
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

    /// The lane with this number in those arrays, from 1.
    fn numbered(&self, number: i64) -> Result<&'l Lane, Failure> {
        let place = usize::try_from(number - 1).ok();
        let lane = place.and_then(|place| self.0.get(place));
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
    claimed(&claim_from(connection, sql, clock, request, None).await?, request, &[])
}

/// The same, but from where the last claim ended, while claims find as many as they may.
pub(super) async fn claim_on(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    memory: &Memory,
    request: &ClaimRequest,
) -> Result<Claimed, Failure> {
    let began = memory.lock().start.of(request, Instant::now());
    let rows = claim_from(connection, sql, clock, request, began).await?;
    let mut claimed = claimed(&rows, request, &[])?;
    if let Some(rest) = ended(memory, request, began, &rows)? {
        claimed.runs.extend(claim(connection, sql, clock, &rest).await?.runs);
    }
    Ok(claimed)
}

/// Remembers where a claim ended that had begun there, and says what is left of it, if it did not begin at the beginning and found less
/// than it might: whoever gets less than he asked for takes it that nothing else is due.
pub(super) fn ended(
    memory: &Memory,
    request: &ClaimRequest,
    began: Option<Place>,
    rows: &[PgRow],
) -> Result<Option<ClaimRequest>, Failure> {
    let found = rows.iter().filter(|row| is_claimed(row)).count();
    memory.lock().start.ended(request, began, (found, last_place(rows)?), Instant::now());
    let limit = request.limit.saturating_sub(u32::try_from(found).unwrap_or(u32::MAX));
    Ok((began.is_some() && limit > 0).then(|| ClaimRequest { limit, ..request.clone() }))
}

async fn claim_from(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    request: &ClaimRequest,
    began: Option<Place>,
) -> Result<Vec<PgRow>, Failure> {
    let query = sql.claim_runs.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = bind_place(bind(query, request, request.limit), began);
    Ok(query.fetch_all(connection).await?)
}

/// Binds where a claim begins.
pub(super) fn bind_place<'q>(
    query: Query<'q, Postgres, PgArguments>,
    began: Option<Place>,
) -> Query<'q, Postgres, PgArguments> {
    let (at, id) = began.map_or((i64::MIN, Uuid::nil()), |(at, id)| (at.as_micros(), id.as_uuid()));
    query.bind(at).bind(id)
}

/// Binds what a claim of at most so many runs asks.
pub(super) fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    request: &ClaimRequest,
    limit: u32,
) -> Query<'q, Postgres, PgArguments> {
    let query = Lanes::of(&request.lanes).bind(query);
    query.bind(i64::from(limit)).bind(request.worker.as_uuid()).bind(micros(request.lease))
}

/// What the rows of a claim say. Without a claimed run there is still one, which says the time. `new`: the runs that the same statement
/// has started.
pub(super) fn claimed(rows: &[PgRow], request: &ClaimRequest, new: &[&NewRun]) -> Result<Claimed, Failure> {
    let now = rows.first().ok_or_else(|| Failure::corrupt("a claim answered nothing"))?;
    let now = row::time(now, "now")?;
    let lanes = Lanes::of(&request.lanes);
    let lane = |row: &PgRow| match row.try_get::<Option<i64>, _>("lane")? {
        Some(number) => lanes.numbered(number),
        None => lane_of_new(new, row::run_id(row)?),
    };
    let run = |row| row::claimed_run(row, lane(row)?.clone(), now, now + request.lease);
    let claimed = rows.iter().filter(|row| is_claimed(row)).map(run);
    Ok(Claimed { runs: claimed.collect::<Result<_, _>>()?, now })
}

fn lane_of_new<'r>(new: &[&'r NewRun], id: RunId) -> Result<&'r Lane, Failure> {
    let run = new.iter().find(|run| run.id == id).ok_or_else(|| Failure::corrupt("a claimed run has no lane"))?;
    Ok(&run.lane)
}

/// Sorts the rows of a claim: who was due for longest is driven first. The row that says the time has no place, and comes before them.
pub(super) fn sort(rows: &mut [PgRow]) {
    rows.sort_by_cached_key(|row| place(row).ok());
}

/// The place of the last run that was claimed, in the order of claims. `None`: none was.
fn last_place(rows: &[PgRow]) -> Result<Option<Place>, Failure> {
    rows.last().filter(|row| is_claimed(row)).map(place).transpose()
}

fn place(row: &PgRow) -> Result<Place, Failure> {
    Ok((row::time(row, "due_at")?, row::run_id(row)?))
}

fn is_claimed(row: &PgRow) -> bool {
    !matches!(row.try_get::<Option<Uuid>, _>("id"), Ok(None))
}
