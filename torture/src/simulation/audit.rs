//! Checks what must hold from one commit to the next, without relying on what the engine reports.

use std::collections::{BTreeMap, BTreeSet};

use workflow_engine::model::WorkerId;
use workflow_sdk::{AttemptStatus, Run, RunId, RunStatus, StepAttempt};

/// The stored rows of each run after its last commit.
#[derive(Debug, Default)]
pub(super) struct Audit {
    stored: BTreeMap<RunId, (Run, Vec<StepAttempt>)>,
    /// Runs that a worker claimed while it held them already: the former claim may still be active.
    claimed_again: BTreeSet<RunId>,
}

impl Audit {
    /// Compares the rows of a run with those after the last commit, and keeps them for the next
    /// comparison.
    pub(super) fn check(&mut self, run: Run, rows: Vec<StepAttempt>) -> Result<(), String> {
        unique(&run, &rows)?;
        if let Some((before, rows_before)) = self.stored.get(&run.id) {
            compare(before, rows_before, &run, &rows)?;
            if before.worker_id.is_some() && before.worker_id == run.worker_id && before.epoch < run.epoch {
                self.claimed_again.insert(run.id);
            }
        }
        self.stored.insert(run.id, (run, rows));
        Ok(())
    }

    /// Returns the runs that a worker holds, each with its epoch.
    pub(super) fn held_by(&self, worker: WorkerId) -> impl Iterator<Item = (RunId, i64)> {
        let is_held = move |run: &&Run| run.worker_id == Some(worker) && run.status == RunStatus::Running;
        self.stored.values().map(|(run, _)| run).filter(is_held).map(|run| (run.id, run.epoch))
    }

    /// Returns `true` if a worker claimed the run while it held it already.
    pub(super) fn was_claimed_again(&self, run: RunId) -> bool {
        self.claimed_again.contains(&run)
    }
}

/// Checks that each step and each position has at most one outcome.
fn unique(run: &Run, rows: &[StepAttempt]) -> Result<(), String> {
    let (mut positions, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let Some(position) = row.position else { continue };
        if !positions.insert(position) {
            return Err(format!("run {}: two outcomes at position {position}", run.id));
        }
        if !keys.insert(&row.step_key) {
            return Err(format!("run {}: two outcomes of step {:?}", run.id, row.step_key));
        }
    }
    Ok(())
}

fn compare(before: &Run, rows_before: &[StepAttempt], run: &Run, rows: &[StepAttempt]) -> Result<(), String> {
    let id = run.id;
    if !(0..=1).contains(&(run.epoch - before.epoch)) {
        return Err(format!("run {id}: its epoch went from {} to {}", before.epoch, run.epoch));
    }
    if before.status.is_terminal() {
        let same = (before.status, &before.output, &before.error) == (run.status, &run.output, &run.error);
        if !same || rows != rows_before || run.epoch != before.epoch {
            return Err(format!("run {id} had ended as {}, and was changed: {run:?}", before.status));
        }
        return Ok(());
    }
    match run.generation - before.generation {
        0 => {}
        1 => return Ok(()),
        _ => return Err(format!("run {id}: its generation went from {} to {}", before.generation, run.generation)),
    }
    let key = |row: &StepAttempt| (row.step_key.clone(), row.attempt);
    let known: BTreeMap<_, _> = rows_before.iter().map(|row| (key(row), row)).collect();
    let now: BTreeMap<_, _> = rows.iter().map(|row| (key(row), row)).collect();
    for (at, row) in &known {
        // A history contains only the last item of a stream, so that row changes.
        let stays = row.status != AttemptStatus::Running && row.kind != workflow_sdk::StepKind::Emitted;
        if stays && now.get(at) != Some(row) {
            return Err(format!("run {id}: an attempt that had ended was changed: {row:?} to {:?}", now.get(at)));
        }
    }
    for (at, row) in &now {
        // Claims come last in a batch, so its rows were written by the owner before the batch.
        if known.get(at) != Some(row) && row.epoch != before.epoch {
            return Err(format!(
                "run {id}, whose owner had epoch {}: a write of epoch {}: {row:?}",
                before.epoch, row.epoch
            ));
        }
    }
    Ok(())
}
