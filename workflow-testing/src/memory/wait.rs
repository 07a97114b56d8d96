//! The things that runs wait for: the runs that hold the slots and those that go before a due run,
//! and the steps that parked runs wait for.

use async_trait::async_trait;

use workflow_engine::model::{AttemptStatus, AwaitedStep, Rank, Run, RunId, RunStatus, StepAttempt};
use workflow_engine::store::{ClaimPlace, DatabaseError, DueRuns, MOST_AWAITED, MOST_HOLDERS, MOST_ROWS, WaitStore};

use super::MemoryStore;
use super::tables::Tables;

#[async_trait]
impl WaitStore for MemoryStore {
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError> {
        let database = self.handle.open("find the runs that hold slots")?;
        Ok(database.look(|tables, _| {
            let is_asked = |run: &&Run| {
                run.status == RunStatus::Running
                    && run.lane.queue == queue
                    && gate.is_none_or(|gate| run.gate.as_deref() == Some(gate))
            };
            let holders = tables.runs().filter(is_asked).take(limit.min(MOST_HOLDERS) as usize);
            holders.map(|run| run.id).collect()
        }))
    }

    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
        let database = self.handle.open("count the due runs before a run")?;
        Ok(database.look(|tables, now| {
            let own = (Rank::from(run.priority).order_at(run.available_at), run.id);
            let place =
                ClaimPlace { lane: &run.lane, gate: run.gate.as_deref(), weight: 1, given: 0, at_most: u32::MAX };
            let due = tables.due(&place, DueRuns::All, now).into_iter().take_while(|due| *due < own);
            let waits = |id: &RunId| tables.run(*id).is_some_and(|run| run.status != RunStatus::Running);
            let before = due.filter(|(_, id)| waits(id)).take(at_most as usize).count();
            u32::try_from(before).unwrap_or(u32::MAX)
        }))
    }

    /// Knows the lanes of the runs that are there. A database also keeps those of deleted runs.
    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError> {
        let database = self.handle.open("look for a queue")?;
        Ok(database.look(|tables, _| tables.runs().any(|run| run.lane.queue == queue)))
    }

    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
        let database = self.handle.open("find the steps that runs wait for")?;
        Ok(database.look(|tables, _| {
            let rows = |run: RunId| open_rows(tables, run).into_iter().map(move |row| (run, row));
            let open = runs.iter().copied().flat_map(rows);
            open.filter_map(|(run, row)| Some((run, step_of(row)?))).collect()
        }))
    }
}

/// Returns the rows of steps that a parked run waits for.
fn open_rows(tables: &Tables, run: RunId) -> Vec<&StepAttempt> {
    let is_last =
        |row: &&StepAttempt| tables.attempts(run).all(|o| o.step_key != row.step_key || o.attempt <= row.attempt);
    let first = tables.attempts(run).take(MOST_ROWS as usize);
    first.filter(|row| AwaitedStep::is_open(row)).filter(is_last).take(MOST_AWAITED as usize).collect()
}

fn step_of(row: &StepAttempt) -> Option<AwaitedStep> {
    let error = match row.status {
        AttemptStatus::Failed => Some(serde_json::to_string(row.error.as_ref()?).ok()?),
        _ => None,
    };
    AwaitedStep::of_row(row.kind, row.step_key.clone(), row.attempt, error.as_deref())
}
