//! The drive of a run that may be what kills its workers.

use workflow_engine::store::ClaimedRun;

use super::crashes::set_alone;
use super::drive_to_exit;
use super::exit::{DriveEnd, Exit};
use crate::claim_state::Directive;
use crate::claims::ClaimGuard;
use crate::quarantine::{LONE_RETRY_DELAY, LoneTurn, QuarantineSlot, lone_time};
use crate::shared::Shared;

/// Drives a run alone in this process, for a while or until its first outcome; then beside others.
///
/// The beginning and the end of that are written to the database, so a death is blamed on the run
/// exactly if it was alone. Returns the slot too: until the last write is committed, the run counts
/// as driven alone.
pub(super) async fn drive_alone(
    shared: &Shared,
    run: &ClaimedRun,
    claim: ClaimGuard,
    turn: LoneTurn,
) -> (DriveEnd, Option<QuarantineSlot>) {
    let (run_id, workflow, crashes) = (run.claim.run_id, &run.lane.workflow, run.crashes);
    tracing::warn!(%run_id, workflow, crashes, "the run may be what kills its workers; it waits to be driven alone");
    let slot = match wait_for_turn(&claim, turn).await {
        Ok(slot) => slot,
        Err(exit) => return (DriveEnd::at(exit), None),
    };
    if let Err(exit) = set_alone(shared, run, true).await {
        return (DriveEnd::at(exit), Some(slot));
    }
    tracing::warn!(%run_id, workflow, crashes, "the run is driven alone");
    let ended = {
        let mut driven = Box::pin(drive_to_exit(shared, run, claim, &slot));
        // Polled beside the drive, because a transaction that a body holds could keep the write
        // waiting.
        let first = tokio::select! {
            biased;
            ended = &mut driven => Some(ended),
            ended = end_isolation(shared, run, &slot) => ended.err().map(DriveEnd::at),
        };
        match first {
            Some(ended) => ended,
            None => driven.await,
        }
    };
    (ended, Some(slot))
}

/// Ends the isolation after the time of the run, unless its first outcome ends it.
async fn end_isolation(shared: &Shared, run: &ClaimedRun, slot: &QuarantineSlot) -> Result<(), Exit> {
    tokio::time::sleep(lone_time(run.crashes)).await;
    if !slot.take_end() {
        return Ok(());
    }
    // A long transaction of the run may keep this write waiting for longer than the executor does.
    while let Err(exit) = set_alone(shared, run, false).await {
        match exit {
            Exit::Unreadable(error) if error.kind.is_transient() => {
                tracing::warn!(run_id = %run.claim.run_id, error = &error as &dyn std::error::Error,
                    "the run stays alone: the end of its isolation was not written, trying again");
            }
            exit => return Err(exit),
        }
    }
    slot.end_isolation();
    Ok(())
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
            slot = &mut turn => return slot.ok_or(Exit::HeldBack(LONE_RETRY_DELAY)),
            () = claim.state().notified() => {}
        }
    }
}
