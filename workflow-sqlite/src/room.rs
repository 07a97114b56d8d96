//! The room of queues and gates that bound how many runs wait. A transaction that starts runs
//! excludes every other writer, so it locks nothing.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;

use workflow_engine::model::QueueRecord;
use workflow_engine::store::{Bounds, DatabaseError, WaitingPlace};

use super::database::Database;
use super::error::During;
use super::{row, sql};

const OPERATION: &str = "count the waiting runs of a queue";

/// Returns the bounds of these queues.
pub(super) async fn read_bounds(
    connection: &mut SqliteConnection,
    queues: &BTreeSet<&str>,
) -> Result<Bounds, DatabaseError> {
    const OPERATION: &str = "read the bounds of queues";
    let query = sqlx::query(sql::READ_BOUNDS).bind(serde_json::to_string(queues).during(OPERATION)?);
    let mut bounds = Bounds::default();
    for found in query.fetch_all(connection).await.during(OPERATION)? {
        let text = |column| row::get::<Option<String>>(&found, column);
        let name: String = row::get(&found, "queue")?;
        let (declared, overridden) = (text("declared")?, text("overridden")?);
        let record = QueueRecord::stored(name.clone(), declared.as_deref(), overridden.as_deref(), None);
        bounds.limits.insert(name, record.limits());
    }
    Ok(bounds)
}

/// Counts the waiting runs of each of these places, to at most its bound.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    places: &[WaitingPlace<'_>],
) -> Result<Vec<u32>, DatabaseError> {
    let mut counts = Vec::with_capacity(places.len());
    for place in places {
        let text = if place.gate.is_some() { sql::COUNT_WAITING_BEHIND } else { sql::COUNT_WAITING };
        let mut query = sqlx::query_scalar(text).bind(place.queue.to_owned()).bind(place.max_waiting);
        if let Some(gate) = place.gate {
            query = query.bind(gate.to_owned());
        }
        counts.push(query.fetch_one(&mut *connection).await.during(OPERATION)?);
    }
    Ok(counts)
}

/// See [`Store::waiting_in`](workflow_engine::store::Store::waiting_in).
pub(super) async fn waiting_in(database: &Database, place: WaitingPlace<'_>) -> Result<u32, DatabaseError> {
    let mut reader = database.reader().await?;
    let counts = count(reader.connection()?, &[place]).await?;
    Ok(counts.first().copied().unwrap_or_default())
}
