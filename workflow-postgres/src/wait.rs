//! The things that runs wait for: the runs that hold the slots and those that go before a due run,
//! and the steps that parked runs wait for.

use async_trait::async_trait;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{AwaitedStep, Clock, Lane, Rank, Run, RunId, StepKind, Timestamp};
use workflow_engine::store::{DatabaseError, MOST_AWAITED, MOST_HOLDERS, MOST_ROWS, WaitStore};

use super::PostgresStore;
use super::call::read_call;
use super::error::Failure;
use super::read::map_all;
use super::row;
use super::sql::Sql;

#[async_trait]
impl WaitStore for PostgresStore {
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError> {
        read_call!(self, "find the runs that hold slots", connection => slot_holders(connection, &self.sql, queue, gate, limit))
    }

    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
        read_call!(self, "count the due runs before a run", connection => due_before(connection, &self.sql, &self.clock, run, at_most))
    }

    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError> {
        read_call!(self, "look for a queue", connection => has_lane(connection, &self.sql, queue))
    }

    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
        read_call!(self, "find the steps that runs wait for", connection => awaited_steps(connection, &self.sql, runs))
    }
}

async fn slot_holders(
    connection: &mut PgConnection,
    sql: &Sql,
    queue: &str,
    gate: Option<&str>,
    limit: u32,
) -> Result<Vec<RunId>, Failure> {
    let statement = if gate.is_some() { &sql.list_running_behind } else { &sql.list_running };
    let mut query = statement.query().bind(queue.to_owned()).bind(i64::from(MOST_HOLDERS)).bind(i64::from(limit));
    if let Some(gate) = gate {
        query = query.bind(gate.to_owned());
    }
    map_all(&query.fetch_all(connection).await?, row::run_id)
}

async fn due_before(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    run: &Run,
    at_most: u32,
) -> Result<u32, Failure> {
    let Lane { queue, workflow, version } = &run.lane;
    let query = sql.count_due_before.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = query.bind(queue.clone()).bind(workflow.clone()).bind(version.clone());
    let query = query.bind(run.gate.clone().unwrap_or_default());
    let query = query.bind(Rank::from(run.priority).order_at(run.available_at).as_micros());
    let query = query.bind(run.id.as_uuid()).bind(i64::from(at_most));
    let found = query.fetch_one(connection).await?;
    u32::try_from(found.try_get::<i64, _>("before")?).map_err(Failure::corrupt)
}

async fn has_lane(connection: &mut PgConnection, sql: &Sql, queue: &str) -> Result<bool, Failure> {
    let found = sql.find_queue.query().bind(queue.to_owned()).fetch_one(connection).await?;
    Ok(found.try_get("is_known")?)
}

async fn awaited_steps(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[RunId],
) -> Result<Vec<(RunId, AwaitedStep)>, Failure> {
    let ids: Vec<Uuid> = runs.iter().map(|id| id.as_uuid()).collect();
    let query = sql.find_awaited_steps.query().bind(ids).bind(i64::from(MOST_ROWS)).bind(i64::from(MOST_AWAITED));
    let mut awaited = Vec::new();
    for found in &query.fetch_all(connection).await? {
        let (kind, error): (&str, Option<&str>) = (found.try_get("kind")?, found.try_get("error")?);
        let Some(kind) = StepKind::parse(kind) else { continue };
        let step = AwaitedStep::of_row(kind, found.try_get("step_key")?, found.try_get("attempt")?, error);
        let run = row::run_id(found)?;
        awaited.extend(step.map(|step| (run, step)));
    }
    Ok(awaited)
}
