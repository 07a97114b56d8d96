//! The things that runs wait for: the runs that hold the slots and those that go before a due run,
//! and the steps that parked runs wait for.

use async_trait::async_trait;

use workflow_engine::model::{AwaitedStep, Lane, Rank, Run, RunId, StepKind};
use workflow_engine::store::{DatabaseError, MOST_AWAITED, MOST_HOLDERS, MOST_ROWS, WaitStore};

use super::SqliteStore;
use super::database::Database;
use super::error::{During, within_deadline};
use super::read::understand;
use super::{row, sql};

const FIND_HOLDERS: &str = "find the runs that hold slots";
const COUNT_BEFORE: &str = "count the due runs before a run";
const FIND_QUEUE: &str = "look for a queue";
const FIND_STEPS: &str = "find the steps that runs wait for";

#[async_trait]
impl WaitStore for SqliteStore {
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError> {
        within_deadline(FIND_HOLDERS, slot_holders(&self.database, queue, gate, limit)).await
    }

    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
        within_deadline(COUNT_BEFORE, due_before(&self.database, run, at_most)).await
    }

    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError> {
        within_deadline(FIND_QUEUE, has_lane(&self.database, queue)).await
    }

    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
        within_deadline(FIND_STEPS, awaited_steps(&self.database, runs)).await
    }
}

async fn slot_holders(
    database: &Database,
    queue: &str,
    gate: Option<&str>,
    limit: u32,
) -> Result<Vec<RunId>, DatabaseError> {
    let text = if gate.is_some() { sql::LIST_RUNNING_BEHIND } else { sql::LIST_RUNNING };
    let mut query = sqlx::query(text).bind(queue.to_owned()).bind(MOST_HOLDERS).bind(limit);
    if let Some(gate) = gate {
        query = query.bind(gate.to_owned());
    }
    let mut reader = database.reader().await?;
    let rows = query.fetch_all(reader.connection()?).await.during(FIND_HOLDERS)?;
    understand(&rows, |found| row::id(found, "id"))
}

async fn due_before(database: &Database, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
    let now = database.now().as_micros();
    let own = Rank::from(run.priority).order_at(run.available_at).as_micros();
    let known = Rank::ALL.map(|rank| {
        let beside = own.saturating_add(rank.head_start());
        (rank.number(), beside.min(now), beside)
    });
    let Lane { queue, workflow, version } = &run.lane;
    let query = sqlx::query_scalar(sql::COUNT_DUE_BEFORE)
        .bind(queue.clone())
        .bind(workflow.clone())
        .bind(version.clone())
        .bind(run.gate.clone().unwrap_or_default())
        .bind(run.id.to_string())
        .bind(at_most)
        .bind(serde_json::to_string(&known).during(COUNT_BEFORE)?);
    let mut reader = database.reader().await?;
    query.fetch_one(reader.connection()?).await.during(COUNT_BEFORE)
}

async fn has_lane(database: &Database, queue: &str) -> Result<bool, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query_scalar(sql::FIND_QUEUE).bind(queue.to_owned());
    query.fetch_one(reader.connection()?).await.during(FIND_QUEUE)
}

async fn awaited_steps(database: &Database, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
    let ids = serde_json::to_string(runs).during(FIND_STEPS)?;
    let query = sqlx::query(sql::FIND_AWAITED_STEPS).bind(ids).bind(MOST_ROWS).bind(MOST_AWAITED);
    let mut reader = database.reader().await?;
    let rows = query.fetch_all(reader.connection()?).await.during(FIND_STEPS)?;
    let mut awaited = Vec::new();
    for found in &rows {
        let run = row::id(found, "id")?;
        // A row that is not understood must not hide the other runs of a list.
        let steps: Vec<(String, String, i64, Option<String>)> =
            row::get(found, "steps").and_then(row::json).unwrap_or_default();
        awaited.extend(steps.into_iter().filter_map(|(kind, key, attempt, error)| {
            Some((run, AwaitedStep::of_row(StepKind::parse(&kind)?, key, attempt, error.as_deref())?))
        }));
    }
    Ok(awaited)
}
