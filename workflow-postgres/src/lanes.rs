//! The rows of lanes, whose numbers stand in the rows of runs.
//!
//! Statements get lanes by their names and look up the numbers themselves, so a process keeps no
//! number that a restored database could give to another lane. A start whose lane has no row
//! changes nothing and says so. The row is then inserted by a transaction of its own, and the start
//! is repeated. So no other transaction ever waits for a new lane, however long the one that starts
//! a run stays open, and a start that is rolled back leaves at most a lane without runs.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use workflow_engine::model::{Lane, NewRun};
use workflow_engine::store::Write;

use super::error::Failure;
use super::sql::{Sql, quoted};

/// Inserts those of these lanes that have no row, for runs behind no gate. The connection must not
/// be in a transaction.
pub(super) async fn insert(
    connection: &mut PgConnection,
    sql: &Sql,
    lanes: impl IntoIterator<Item = &Lane>,
) -> Result<(), Failure> {
    // In one order, because concurrent inserts of the same lanes wait for each other.
    let lanes: BTreeSet<&Lane> = lanes.into_iter().collect();
    let query = sql
        .insert_lanes
        .query()
        .bind(lanes.iter().map(|lane| lane.queue.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.version.as_str()).collect::<Vec<_>>());
    query.execute(connection).await?;
    Ok(())
}

/// Inserts the lanes and gates in which these writes start runs, or to which they move runs, as far
/// as they have no rows. The connection must not be in a transaction.
pub(super) async fn insert_of(connection: &mut PgConnection, sql: &Sql, writes: &[Write]) -> Result<(), Failure> {
    let places = || writes.iter().flat_map(Write::new_places);
    insert(&mut *connection, sql, places().map(|(lane, _)| lane)).await?;
    let gated: BTreeSet<(&Lane, &str)> = places().filter_map(|(lane, gate)| Some((lane, gate?))).collect();
    if gated.is_empty() {
        return Ok(());
    }
    let column = |of: fn(&Lane) -> &str| gated.iter().map(|(lane, _)| of(lane)).collect::<Vec<_>>();
    let (queues, gates) = (column(|lane| &lane.queue), gated.iter().map(|(_, gate)| *gate).collect::<Vec<_>>());
    sql.insert_gated_queues.query().bind(queues.clone()).execute(&mut *connection).await?;
    sql.insert_gates.query().bind(queues.clone()).bind(gates.clone()).execute(&mut *connection).await?;
    let query = sql.insert_gated_lanes.query().bind(queues).bind(column(|lane| &lane.workflow));
    let query = query.bind(column(|lane| &lane.version)).bind(gates);
    query.bind(format!("{}.workflow_lanes", quoted(sql.schema()))).execute(connection).await?;
    Ok(())
}

/// Returns the lanes of these runs with their gates, each once, and for each run the number of its
/// lane in that list, counted from 1. The gate of a run behind none is empty.
pub(super) fn numbered<'r>(runs: &[&'r NewRun]) -> (Vec<(&'r Lane, &'r str)>, Vec<i32>) {
    let mut lanes: Vec<(&Lane, &str)> = Vec::new();
    let number = |run: &&'r NewRun| {
        let place = (&run.lane, run.gate.as_deref().unwrap_or_default());
        // The runs of a batch have few lanes, and neighbours mostly the same one.
        let found = lanes.iter().rposition(|lane| *lane == place);
        let index = found.unwrap_or_else(|| {
            lanes.push(place);
            lanes.len() - 1
        });
        i32::try_from(index + 1).unwrap_or(i32::MAX)
    };
    let numbers = runs.iter().map(number).collect();
    (lanes, numbers)
}
