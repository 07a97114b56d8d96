//! The drive of a run that may be what kills its workers.

use workflow_engine::store::ClaimedRun;

use super::crashes::set_alone;
use super::drive_to_exit;
use super::exit::Exit;
use crate::claim_state::Directive;
use crate::claims::ClaimGuard;
use crate::quarantine::{LoneTurn, QuarantineSlot, lone_time};
use crate::shared::Shared;

/// Drives a run alone in this process, for a while or until its first outcome; then beside others.
///
/// The database knows before and after, so a death is blamed on the run exactly if it was alone.
pub(super) async fn drive_alone(shared: &Shared, run: &ClaimedRun, claim: ClaimGuard, turn: LoneTurn) -> (Exit, bool) {
    let (run_id, workflow, crashes) = (run.claim.run_id, &run.lane.workflow, run.crashes);
    tracing::warn!(%run_id, workflow, crashes, "the run may be what kills its workers; it waits to be driven alone");
    let slot = match wait_for_turn(&claim, turn).await {
        Ok(slot) => slot,
        Err(exit) => return (exit, false),
    };
    if let Err(exit) = set_alone(shared, run, true).await {
        return (exit, false);
    }
    tracing::warn!(%run_id, workflow, crashes, "the run is driven alone");
    let mut driven = Box::pin(drive_to_exit(shared, run, claim, &slot));
    tokio::select! {
        biased;
        ended = &mut driven => return ended,
        () = tokio::time::sleep(lone_time(crashes)) => {}
    }
    // The drive itself may have ended the isolation, or be about to.
    if slot.is_alone() {
        if let Err(exit) = set_alone(shared, run, false).await {
            return (exit, false);
        }
        slot.end_isolation();
    }
    driven.await
}

/// Waits until the process drives no other run, or the claim is not to be driven any more.
async fn wait_for_turn(claim: &ClaimGuard, turn: LoneTurn) -> Result<QuarantineSlot, Exit> {
    let turn = turn.wait();
    tokio::pin!(turn);
    loop {
        match claim.state().snapshot().directive {
            Directive::Continue => {}
            Directive::Drain | Directive::Abandon => return Err(Exit::Released),
            Directive::Lost => return Err(Exit::Lost),
        }
        tokio::select! {
            biased;
            slot = &mut turn => return slot.ok_or(Exit::QuarantineFull),
            () = claim.state().notified() => {}
        }
    }
}
