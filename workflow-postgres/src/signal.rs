//! Signals in the inboxes of runs.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlx::{PgConnection, Row};

use workflow_engine::model::{AcceptedSignal, Clock, NewSignal, RunId, Timestamp};
use workflow_engine::store::ConsumedSignal;

use super::error::Failure;
use super::fence::ids;
use super::row;
use super::sql::Sql;

/// Inserts signals to runs that the fence has locked, that have not ended, and whose inboxes have
/// room. Returns run and key of each new one.
pub(super) async fn insert(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    signals: &[&NewSignal],
) -> Result<HashSet<(RunId, String)>, Failure> {
    let query = sql
        .insert_signals
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(ids(signals.iter().map(|signal| &signal.run_id)))
        .bind(signals.iter().map(|signal| signal.name.as_str()).collect::<Vec<_>>())
        .bind(signals.iter().map(|signal| signal.key.as_str()).collect::<Vec<_>>())
        .bind(signals.iter().map(|signal| signal.payload.as_str()).collect::<Vec<_>>())
        .bind(signals.iter().map(|signal| signal.limit.map(i64::from)).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row::run_id(row)?, row.try_get("key")?))).collect()
}

/// Returns the signals in the inboxes that have the keys of these signals, by run and key.
pub(super) async fn find(
    connection: &mut PgConnection,
    sql: &Sql,
    signals: &[&NewSignal],
) -> Result<HashMap<(RunId, String), AcceptedSignal>, Failure> {
    let query = sql
        .find_signals
        .query()
        .bind(ids(signals.iter().map(|signal| &signal.run_id)))
        .bind(signals.iter().map(|signal| signal.key.as_str()).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(((row::run_id(row)?, row.try_get("key")?), row::accepted_signal(row)?))).collect()
}

/// Takes signals out of the inboxes.
pub(super) async fn consume(
    connection: &mut PgConnection,
    sql: &Sql,
    consumed: &[ConsumedSignal<'_>],
) -> Result<(), Failure> {
    sql.consume_signals
        .query()
        .bind(ids(consumed.iter().map(|signal| &signal.run_id)))
        .bind(consumed.iter().map(|signal| signal.seq).collect::<Vec<_>>())
        .bind(consumed.iter().map(|signal| signal.step_key).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Wakes these runs.
pub(super) async fn wake(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &BTreeSet<RunId>,
) -> Result<(), Failure> {
    let query = sql.wake_runs.query().bind(clock.fixed().map(Timestamp::as_micros));
    query.bind(ids(runs.iter())).execute(connection).await?;
    Ok(())
}
