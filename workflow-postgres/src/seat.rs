//! Seats of limits for steps.

use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::faults::planted;
use workflow_engine::model::{Clock, RunId, SeatLine, SeatWait, Timestamp};
use workflow_engine::store::{AskedSeat, CALL_PATIENCE, ListedSeat, SeatList, SeatRow};

use super::error::Failure;
use super::fence::ids;
use super::row;
use super::sql::Sql;

/// Keeps other transactions from giving seats of these lines out.
pub(super) async fn lock(connection: &mut PgConnection, sql: &Sql, lines: &BTreeSet<&SeatLine>) -> Result<(), Failure> {
    if planted("unlocked-line") {
        return Ok(());
    }
    let limits: Vec<String> = lines.iter().map(|line| line.limit.clone()).collect();
    let keys: Vec<String> = lines.iter().map(|line| line.key.clone()).collect();
    sql.lock_lines.query().bind(limits).bind(keys).execute(connection).await?;
    Ok(())
}

/// Returns the rows of these lines, for a batch in which the `asking` steps ask for a seat.
pub(super) async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    lines: &[(&SeatLine, u32)],
    asking: &[(RunId, &str)],
) -> Result<Vec<Vec<SeatRow>>, Failure> {
    let query = sql.read_seats.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = query
        .bind(lines.iter().map(|(line, _)| line.limit.clone()).collect::<Vec<_>>())
        .bind(lines.iter().map(|(line, _)| line.key.clone()).collect::<Vec<_>>())
        .bind(lines.iter().map(|(_, most)| i64::from(*most)).collect::<Vec<_>>())
        .bind(i64::try_from(CALL_PATIENCE.as_micros()).unwrap_or(i64::MAX))
        .bind(ids(asking.iter().map(|(run, _)| run)))
        .bind(asking.iter().map(|(_, key)| *key).collect::<Vec<_>>());
    let mut rows = vec![Vec::new(); lines.len()];
    for found in &query.fetch_all(connection).await? {
        let number = usize::try_from(found.try_get::<i64, _>("number")?).map_err(Failure::corrupt)?;
        if let Some(line) = number.checked_sub(1).and_then(|place| rows.get_mut(place)) {
            line.push(seat(found)?);
        }
    }
    Ok(rows)
}

fn seat(found: &PgRow) -> Result<SeatRow, Failure> {
    Ok(SeatRow {
        run_id: row::run_id(found)?,
        step_key: found.try_get("step_key")?,
        asked_at: row::time(found, "asked_at")?,
        called: row::time_if_any(found, "called_at")?.is_some(),
        asks_at: row::time_if_any(found, "asks_at")?,
        epoch: found.try_get("epoch")?,
        run_epoch: found.try_get("run_epoch")?,
        run_status: row::run_status(found.try_get("status")?)?,
    })
}

/// Writes the rows of steps that ask for seats.
pub(super) async fn write(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    seats: &[AskedSeat<'_>],
) -> Result<(), Failure> {
    sql.upsert_seats
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(ids(seats.iter().map(|seat| &seat.run_id)))
        .bind(seats.iter().map(|seat| seat.step_key).collect::<Vec<_>>())
        .bind(seats.iter().map(|seat| seat.line.limit.as_str()).collect::<Vec<_>>())
        .bind(seats.iter().map(|seat| seat.line.key.as_str()).collect::<Vec<_>>())
        .bind(seats.iter().map(|seat| seat.epoch).collect::<Vec<_>>())
        .bind(seats.iter().map(|seat| seat.asks_at.map(Timestamp::as_micros)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Deletes the rows of these steps.
pub(super) async fn delete(connection: &mut PgConnection, sql: &Sql, steps: &[(RunId, &str)]) -> Result<(), Failure> {
    let query = sql.delete_seats.query().bind(ids(steps.iter().map(|(run, _)| run)));
    query.bind(steps.iter().map(|(_, key)| *key).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// Notes that these steps were called.
pub(super) async fn mark_called(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    steps: &[(RunId, String)],
) -> Result<(), Failure> {
    let query = sql.mark_called.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = query.bind(ids(steps.iter().map(|(run, _)| run)));
    query.bind(steps.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// See [`Store::waiting_lines`](workflow_engine::store::Store::waiting_lines).
pub(super) async fn waiting_lines(
    connection: &mut PgConnection,
    sql: &Sql,
    after: Option<&SeatLine>,
    limit: u32,
) -> Result<Vec<SeatLine>, Failure> {
    let (name, key) = after.map_or(("", ""), |after| (after.limit.as_str(), after.key.as_str()));
    let query = sql.find_waiting_lines.query().bind(name.to_owned()).bind(key.to_owned()).bind(i64::from(limit));
    query.fetch_all(connection).await?.iter().map(line).collect()
}

fn line(found: &PgRow) -> Result<SeatLine, Failure> {
    Ok(SeatLine { limit: found.try_get("limit_name")?, key: found.try_get("key")? })
}

/// See [`Store::seat_waits`](workflow_engine::store::Store::seat_waits).
pub(super) async fn waits_of(connection: &mut PgConnection, sql: &Sql, run: RunId) -> Result<Vec<SeatWait>, Failure> {
    let rows = sql.read_seat_waits.query().bind(run.as_uuid()).fetch_all(connection).await?;
    let wait = |found: &PgRow| {
        let (step_key, asked_at) = (found.try_get("step_key")?, row::time(found, "asked_at")?);
        Ok(SeatWait { step_key, line: line(found)?, asked_at })
    };
    rows.iter().map(wait).collect()
}

/// See [`Store::listed_seats`](workflow_engine::store::Store::listed_seats).
pub(super) async fn listed(
    connection: &mut PgConnection,
    sql: &Sql,
    list: SeatList<'_>,
) -> Result<Vec<ListedSeat>, Failure> {
    let SeatList { limit, waiting, after: (key, asked_at), at_most } = list;
    let statement = if waiting { &sql.list_waiting_seats } else { &sql.list_held_seats };
    let query = statement.query().bind(limit.to_owned()).bind(key.to_owned()).bind(asked_at.as_micros());
    query.bind(i64::from(at_most)).fetch_all(connection).await?.iter().map(listed_seat).collect()
}

fn listed_seat(found: &PgRow) -> Result<ListedSeat, Failure> {
    Ok(ListedSeat {
        run_id: row::run_id(found)?,
        workflow: found.try_get("workflow_name")?,
        run_status: row::run_status(found.try_get("status")?)?,
        run_epoch: found.try_get("run_epoch")?,
        step_key: found.try_get("step_key")?,
        key: found.try_get("key")?,
        asked_at: row::time(found, "asked_at")?,
        called_at: row::time_if_any(found, "called_at")?,
        asks_at: row::time_if_any(found, "asks_at")?,
        epoch: found.try_get("epoch")?,
    })
}
