use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;
use workflow_sdk::BackendError;
use workflow_sdk::engine::{ClaimAnswer, ClaimRequest, ClaimedRun, ExecutorStopped, Outcome, Write, failpoint_error};

use crate::WorkerError;
use crate::drive::drive;
use crate::due::wait_for_due;
use crate::shared::{Shared, Slot};

/// Runs claimed in one statement at most: bounds the time for which it holds its rows.
const MAX_CLAIM: usize = 500;

/// How long the worker waits after the database failed to answer a claim.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// Claims and starts drives until it is dropped, or the executor stops.
pub(crate) async fn claim_runs(shared: Arc<Shared>) -> WorkerError {
    shared.executor().hub().listen().await;
    let mut more_are_due = true;
    let mut look_from = Instant::now();
    loop {
        let permits = take_permits(&shared).await;
        let asked = permits.num_permits();
        let answer = match failpoint_error("claim.before_commit") {
            Ok(()) if more_are_due => claim(&shared, asked).await,
            Ok(()) => claim_when_due(&shared, asked, &mut look_from).await,
            Err(fault) => Ok(ClaimAnswer { outcome: Err(fault.into()), begun: Instant::now() }),
        };
        match answer.map(answered) {
            Ok(ClaimAnswer { outcome: Ok(claimed), begun }) => {
                shared.clock.set(claimed.now);
                more_are_due = claimed.runs.len() == asked;
                start_drives(&shared, claimed.runs, begun, permits);
            }
            Ok(ClaimAnswer { outcome: Err(error), .. }) => {
                recover(&shared, &error).await;
                more_are_due = true;
            }
            Err(stopped) => return stopped.into(),
        }
    }
}

/// As many permits as are free, at least one: permits come first, so that no run is claimed which nobody drives.
async fn take_permits(shared: &Shared) -> OwnedSemaphorePermit {
    shared.pressure.set(shared.permits.available_permits() == 0);
    let first = Arc::clone(&shared.permits).acquire_owned().await;
    shared.pressure.set(false);
    let Ok(mut permits) = first else {
        // The semaphore is never closed; should it be, there is nothing to claim for.
        return std::future::pending().await;
    };
    // Runs end by the dozen, by one commit: their drives give their permits back before this goes on.
    tokio::task::yield_now().await;
    let more = shared.permits.available_permits().min(MAX_CLAIM - 1);
    if let Ok(more) = Arc::clone(&shared.permits).try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
        permits.merge(more);
    }
    permits
}

/// The answer, unless a test loses it.
fn answered(answer: ClaimAnswer) -> ClaimAnswer {
    let ClaimAnswer { outcome, begun } = answer;
    let outcome = outcome.and_then(|claimed| {
        if !claimed.runs.is_empty() {
            failpoint_error("claim.after_commit")?;
        }
        Ok(claimed)
    });
    ClaimAnswer { outcome, begun }
}

async fn claim(shared: &Shared, limit: usize) -> Result<ClaimAnswer, ExecutorStopped> {
    let answer = shared.executor().claim(request(shared, limit)).await?;
    answer.await.map_err(|_| ExecutorStopped)
}

/// Claims as soon as a run may be due: by a commit of this process, which then claims too; by a notification, by the next due
/// time, or by the poll interval.
async fn claim_when_due(
    shared: &Shared,
    limit: usize,
    look_from: &mut Instant,
) -> Result<ClaimAnswer, ExecutorStopped> {
    let mut answer = shared.executor().offer(request(shared, limit)).await?;
    tokio::select! {
        biased;
        answer = &mut answer => return answer.map_err(|_| ExecutorStopped),
        () = wait_for_due(shared, look_from) => {}
    }
    shared.executor().call_in().await?;
    answer.await.map_err(|_| ExecutorStopped)
}

fn request(shared: &Shared, limit: usize) -> ClaimRequest {
    ClaimRequest {
        worker: shared.id,
        lanes: shared.lanes.clone(),
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        lease: shared.options.lease,
    }
}

/// One task a run, each with its permit; spare permits go back.
fn start_drives(shared: &Arc<Shared>, runs: Vec<ClaimedRun>, begun: Instant, mut permits: OwnedSemaphorePermit) {
    for run in runs {
        let held = shared.held.hold(run.claim, begun + shared.options.lease);
        let slot = Slot { permit: permits.split(1), _drive: shared.drives.subscribe() };
        let span = tracing::info_span!("run", id = %run.claim.run_id, workflow = run.lane.workflow);
        // Boxed while it is small to move: tokio and the span would pass all of its state on, seven times.
        let driven = Box::pin(drive(Arc::clone(shared), Box::new(run), held, slot));
        tokio::spawn(driven.instrument(span));
    }
}

/// After a claim whose effect is unknown: what it may have claimed is given back, for nobody drives it.
async fn recover(shared: &Shared, error: &BackendError) {
    tracing::warn!(error = error as &dyn std::error::Error, "claim failed, trying again");
    tokio::time::sleep(FAILURE_DELAY).await;
    let disown = Write::Disown { worker: shared.id, known: shared.held.claims() };
    if let Ok(Outcome::Refused(error)) = shared.executor().commit(disown).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "claims not given back; they end with their lease");
    }
}
