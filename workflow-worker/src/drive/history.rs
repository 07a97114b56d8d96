//! The state with which a drive begins: the history and the settings of its run.

use workflow_engine::faults::failpoint_error;
use workflow_engine::observe::OpenSpan;
use workflow_engine::replay::HistorySize;
use workflow_engine::runtime::RunSettings;
use workflow_engine::schedule::Occurrence;
use workflow_engine::store::ClaimedRun;
use workflow_sdk::{Client, DatabaseError, DatabaseErrorKind, RunId, StepAttempt, UnreadablePayload};

use super::events::name_of;
use super::exit::Exit;
use crate::shared::Shared;

/// Reads the history of a claimed run. A run whose row cannot be understood has none.
pub(super) async fn load_history(shared: &Shared, run: &ClaimedRun) -> Result<Vec<StepAttempt>, Exit> {
    if let Some(unreadable) = UnreadablePayload::in_place_of(&run.input) {
        return Err(Exit::Unreadable(unreadable.into()));
    }
    if let Some(why) = &run.unreadable {
        let error = DatabaseError::new(DatabaseErrorKind::Corrupt, "understand the run's row", why.clone());
        return Err(Exit::Unreadable(error));
    }
    // Only an earlier claim can have written rows, and the first claim of a fork with a history has
    // epoch 2.
    if run.claim.epoch == 1 {
        return Ok(Vec::new());
    }
    failpoint_error("drive.before_history").map_err(|fault| Exit::Unreadable(fault.into()))?;
    shared.client.store().history(run.claim.run_id).await.map_err(Exit::Unreadable)
}

/// Reads the occurrence of a run that a schedule has started. The id of a run says whether one has,
/// so other runs cost no read.
pub(super) async fn load_occurrence(shared: &Shared, run: RunId) -> Result<Option<Occurrence>, Exit> {
    if !run.is_scheduled() {
        return Ok(None);
    }
    let row = shared.client.store().run(run).await.map_err(Exit::Unreadable)?;
    Ok(row.and_then(|row| Occurrence::of_tags(&row.tags)))
}

/// Returns the settings of the run's cell.
pub(super) fn settings_of(run: &ClaimedRun, occurrence: Option<Occurrence>, client: &Client) -> RunSettings {
    let span = OpenSpan::of_drive(name_of(run), run.claim.epoch, run.trace, client.observers());
    RunSettings {
        run_id: run.claim.run_id,
        epoch: run.claim.epoch,
        generation: run.generation,
        depth: run.depth,
        lane: run.lane.clone(),
        attempt: u32::try_from(run.attempt).unwrap_or(u32::MAX),
        occurrence: occurrence.map(Box::new),
        created_at: run.created_at,
        started_at: run.started_at,
        payload_limit: client.payload_limit(),
        span,
    }
}

/// Logs that the history of a run has become large.
pub(super) fn warn_of_size(run: &ClaimedRun, size: HistorySize) {
    let HistorySize { steps, bytes } = size;
    let workflow = &run.lane.workflow;
    tracing::warn!(
        run_id = %run.claim.run_id,
        workflow,
        steps,
        bytes,
        "the run's history grows large, and every replay reads all of it: use ctx.continue_as_new"
    );
}
