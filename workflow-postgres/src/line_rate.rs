//! Rates of limits for steps, per line.

use sqlx::PgConnection;

use workflow_engine::model::{Clock, SeatLine, Timestamp};
use workflow_engine::store::ReadRates;

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Returns until when the rates of these lines are used up.
pub(super) async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    lines: &[&SeatLine],
) -> Result<ReadRates, Failure> {
    let query = sql.read_rates_of_lines.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = query.bind(lines.iter().map(|line| line.limit.clone()).collect::<Vec<_>>());
    let query = query.bind(lines.iter().map(|line| line.key.clone()).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    let never = Timestamp::from_micros(0);
    let now = rows.first().map_or(Ok(never), |row| row::time(row, "now"))?;
    let used = |found| Ok::<_, Failure>(row::time_if_any(found, "used_until")?.unwrap_or(never));
    Ok(ReadRates { now, used_until: rows.iter().map(used).collect::<Result<_, _>>()? })
}

/// Says until when the rates of these lines are used up.
pub(super) async fn write(
    connection: &mut PgConnection,
    sql: &Sql,
    lines: &[(&SeatLine, Timestamp)],
) -> Result<(), Failure> {
    let query = sql.use_rates_of_lines.query();
    let query = query.bind(lines.iter().map(|(line, _)| line.limit.clone()).collect::<Vec<_>>());
    let query = query.bind(lines.iter().map(|(line, _)| line.key.clone()).collect::<Vec<_>>());
    let query = query.bind(lines.iter().map(|(_, until)| until.as_micros()).collect::<Vec<_>>());
    query.execute(connection).await?;
    Ok(())
}

/// Forgets at most this number of rates that are not used up any more.
pub(super) async fn forget(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    at_most: u32,
) -> Result<(), Failure> {
    let query = sql.forget_rates_of_lines.query().bind(clock.fixed().map(Timestamp::as_micros));
    query.bind(i64::from(at_most)).execute(connection).await?;
    Ok(())
}
