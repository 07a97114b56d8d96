//! Seats of limits for steps. One transaction writes at a time, so a line needs no lock.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{RunId, SeatLine, SeatWait, Timestamp};
use workflow_engine::store::{AskedSeat, CALL_PATIENCE, DatabaseError, ListedSeat, SeatList, SeatRow};

use super::database::Database;
use super::error::During;
use super::{row, sql};

const OPERATION: &str = "give out seats";

/// Returns the rows of these lines, for a batch in which these steps ask for a seat.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    lines: &[(&SeatLine, u32)],
    asking: &[(RunId, &str)],
    now: Timestamp,
) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
    let patience = i64::try_from(CALL_PATIENCE.as_micros()).unwrap_or(i64::MAX);
    let asking = serde_json::to_string(asking).during("read seats")?;
    let mut rows = Vec::with_capacity(lines.len());
    for (line, most) in lines {
        let query = sqlx::query(sql::READ_SEATS).bind(&line.limit).bind(&line.key).bind(*most);
        let query = query.bind(now.as_micros().saturating_sub(patience)).bind(&asking);
        let found = query.fetch_all(&mut *connection).await.during("read seats")?;
        rows.push(found.iter().map(seat).collect::<Result<_, _>>()?);
    }
    Ok(rows)
}

fn seat(found: &SqliteRow) -> Result<SeatRow, DatabaseError> {
    Ok(SeatRow {
        run_id: row::id(found, "run_id")?,
        step_key: row::get(found, "step_key")?,
        asked_at: row::time(found, "asked_at")?,
        called: row::maybe_time(found, "called_at")?.is_some(),
        asks_at: row::maybe_time(found, "asks_at")?,
        epoch: row::get(found, "epoch")?,
        run_epoch: row::get(found, "run_epoch")?,
        run_status: row::status(found)?,
    })
}

/// Writes the rows of steps that ask for seats.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    seats: &[AskedSeat<'_>],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    for AskedSeat { run_id, step_key, line, epoch, asks_at } in seats {
        let query = sqlx::query(sql::UPSERT_SEAT).bind(run_id.to_string()).bind(*step_key);
        let query = query.bind(&line.limit).bind(&line.key).bind(now.as_micros()).bind(*epoch);
        let query = query.bind(asks_at.map(Timestamp::as_micros));
        query.execute(&mut *connection).await.during(OPERATION)?;
    }
    Ok(())
}

/// Deletes the rows of these steps.
pub(super) async fn delete(connection: &mut SqliteConnection, steps: &[(RunId, &str)]) -> Result<(), DatabaseError> {
    let query = sqlx::query(sql::DELETE_SEATS).bind(serde_json::to_string(steps).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Notes that these steps were called.
pub(super) async fn mark_called(
    connection: &mut SqliteConnection,
    steps: &[(RunId, String)],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let query = sqlx::query(sql::MARK_CALLED).bind(serde_json::to_string(steps).during(OPERATION)?);
    query.bind(now.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// See [`Store::seats`](workflow_engine::store::Store::seats).
pub(super) async fn list(database: &Database, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
    let mut reader = database.reader().await?;
    read(reader.connection()?, lines, &[], database.now()).await
}

/// See [`Store::waiting_lines`](workflow_engine::store::Store::waiting_lines).
pub(super) async fn waiting_lines(
    database: &Database,
    after: Option<&SeatLine>,
    limit: u32,
) -> Result<Vec<SeatLine>, DatabaseError> {
    let mut reader = database.reader().await?;
    let connection = reader.connection()?;
    let mut lines: Vec<SeatLine> = Vec::new();
    while lines.len() < limit as usize {
        let last = lines.last().or(after);
        let (name, key) = last.map_or(("", ""), |last| (last.limit.as_str(), last.key.as_str()));
        let query = sqlx::query(sql::FIND_WAITING_LINE).bind(name.to_owned()).bind(key.to_owned());
        let Some(found) = query.fetch_optional(&mut *connection).await.during("find waiting steps")? else { break };
        lines.push(line(&found)?);
    }
    Ok(lines)
}

fn line(found: &SqliteRow) -> Result<SeatLine, DatabaseError> {
    Ok(SeatLine { limit: row::get(found, "limit_name")?, key: row::get(found, "key")? })
}

/// See [`Store::seat_waits`](workflow_engine::store::Store::seat_waits).
pub(super) async fn waits_of(database: &Database, run: RunId) -> Result<Vec<SeatWait>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_SEAT_WAITS).bind(run.to_string());
    let rows = query.fetch_all(reader.connection()?).await.during("find the seats that a run waits for")?;
    let wait = |found: &SqliteRow| {
        let (step_key, asked_at) = (row::get(found, "step_key")?, row::time(found, "asked_at")?);
        Ok(SeatWait { step_key, line: line(found)?, asked_at })
    };
    rows.iter().map(wait).collect()
}

/// See [`Store::listed_seats`](workflow_engine::store::Store::listed_seats).
pub(super) async fn listed(database: &Database, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError> {
    let SeatList { limit, waiting, after: (key, asked_at), at_most } = list;
    let statement = if waiting { sql::LIST_WAITING_SEATS } else { sql::LIST_HELD_SEATS };
    let mut reader = database.reader().await?;
    let query = sqlx::query(statement).bind(limit.to_owned()).bind(key.to_owned()).bind(asked_at.as_micros());
    let rows = query.bind(at_most).fetch_all(reader.connection()?).await.during("list seats")?;
    rows.iter().map(listed_seat).collect()
}

fn listed_seat(found: &SqliteRow) -> Result<ListedSeat, DatabaseError> {
    Ok(ListedSeat {
        run_id: row::id(found, "id")?,
        workflow: row::get(found, "workflow_name")?,
        run_status: row::status(found)?,
        run_epoch: row::get(found, "run_epoch")?,
        step_key: row::get(found, "step_key")?,
        key: row::get(found, "key")?,
        asked_at: row::time(found, "asked_at")?,
        called_at: row::maybe_time(found, "called_at")?,
        asks_at: row::maybe_time(found, "asks_at")?,
        epoch: row::get(found, "epoch")?,
    })
}
