use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;
use workflow_engine::executor::{ClaimAnswer, ExecutorStopped};
use workflow_engine::faults::failpoint_error;
use workflow_engine::store::{ClaimRequest, ClaimedRun, Outcome, Write};
use workflow_sdk::DatabaseError;

use crate::WorkerError;
use crate::drive::{drive, send_claimed};
use crate::due::{FAILURE_DELAY, wait_for_due};
use crate::shared::{Shared, Slot};

/// Runs claimed in one statement at most: bounds the time for which it holds its rows.
const MAX_CLAIM: usize = 500;

/// So many may be claimed at once however few the worker drives: a claim is a commit.
const MIN_CLAIM: usize = 64;

/// So many claims may be under way while more runs are due. The executor makes one batch ready while it commits another, so a run that
/// ends in the one would else leave its permit idle until the claim in the other is answered.
const MOST_CLAIMS: usize = 2;

/// Claims and starts drives until it is dropped, or the executor stops.
pub(crate) async fn claim_runs(shared: Arc<Shared>) -> WorkerError {
    shared.executor().notifier().listen().await;
    let mut look_from = Instant::now();
    let mut next = Next::Claim;
    loop {
        next = match claim_next(&shared, next, &mut look_from).await {
            Ok(next) => next,
            Err(stopped) => return stopped.into(),
        };
    }
}

/// Claims at once or as soon as a run may be due, and on while more are.
async fn claim_next(shared: &Arc<Shared>, next: Next, look_from: &mut Instant) -> Result<Next, ExecutorStopped> {
    if let Next::Recover(error) = &next {
        recover(shared, error).await;
    }
    let permits = take_permits(shared).await;
    let (permits, answer) = match next {
        Next::Wait => claim_when_due(shared, permits, look_from).await,
        Next::Claim | Next::Recover(_) => claim_now(shared, permits).await,
    };
    match handle_answer(shared, permits, answer?) {
        Next::Claim => claim_while_due(shared).await,
        next => Ok(next),
    }
}

/// Claims until a claim finds less than it might.
async fn claim_while_due(shared: &Arc<Shared>) -> Result<Next, ExecutorStopped> {
    let mut under_way = FuturesOrdered::new();
    let mut next = Next::Claim;
    loop {
        tokio::select! {
            biased;
            Some((permits, answer)) = under_way.next() => next = next.and(handle_answer(shared, permits, answer?)),
            permits = take_permits(shared), if matches!(next, Next::Claim) && under_way.len() < MOST_CLAIMS => {
                under_way.push_back(claim_now(shared, permits));
                continue;
            }
        }
        // Only then: what the other claim finds must be driven, and not given back.
        if under_way.is_empty() && !matches!(next, Next::Claim) {
            return Ok(next);
        }
    }
}

/// What follows a claim.
enum Next {
    /// Another: it found as many as it might, or it is not known what is due.
    Claim,
    /// One that waits until a run may be due: it found less.
    Wait,
    /// Another, once what it may have claimed is given back: it is unknown what it found.
    Recover(DatabaseError),
}

impl Next {
    /// What follows this and a later claim.
    fn and(self, later: Self) -> Self {
        if matches!(self, Self::Recover(_)) { self } else { later }
    }
}

/// Drives what was claimed.
fn handle_answer(shared: &Arc<Shared>, permits: OwnedSemaphorePermit, answer: ClaimAnswer) -> Next {
    let ClaimAnswer { outcome, begun } = answered(answer);
    match outcome {
        Ok(claimed) => {
            shared.clock.set(claimed.now);
            let more_are_due = claimed.runs.len() == permits.num_permits();
            start_drives(shared, claimed.runs, begun, permits);
            if more_are_due { Next::Claim } else { Next::Wait }
        }
        Err(error) => Next::Recover(error),
    }
}

/// As many permits as are free, at least one: permits come first, so that no run is claimed which nobody drives.
async fn take_permits(shared: &Shared) -> OwnedSemaphorePermit {
    shared.saturation.set(shared.permits.available_permits() == 0);
    let first = Arc::clone(&shared.permits).acquire_owned().await;
    shared.saturation.set(false);
    let Ok(mut permits) = first else {
        // The semaphore is never closed; should it be, there is nothing to claim for.
        return std::future::pending().await;
    };
    // Runs end by the dozen, by one commit: their drives give their permits back before this goes on.
    tokio::task::yield_now().await;
    let more = shared.permits.available_permits().min(most(shared.options.concurrency as usize) - 1);
    if let Ok(more) = Arc::clone(&shared.permits).try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
        permits.merge(more);
    }
    permits
}

/// The most that a worker of this concurrency claims at once: an eighth. Runs that are claimed together end together; then one commit has
/// all the ends and claims and the next ones have none, and database and drives wait for each other in turn. At 500 at once it was 5 % more
/// runs a second than with all of them (`throughput` on PostgreSQL).
fn most(concurrency: usize) -> usize {
    (concurrency / 8).clamp(MIN_CLAIM, MAX_CLAIM)
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

/// Permits, and the answer to the claim of as many runs.
type Claimed = (OwnedSemaphorePermit, Result<ClaimAnswer, ExecutorStopped>);

/// Claims at once.
async fn claim_now(shared: &Shared, permits: OwnedSemaphorePermit) -> Claimed {
    let request = request(shared, &permits);
    let answer = async { shared.executor().claim(request).await?.await.map_err(|_| ExecutorStopped) };
    (permits, unless_kept(answer).await)
}

/// Claims as soon as a run may be due: by a commit of this process, which then claims too; by a notification, by the next due time, or by
/// the poll interval.
async fn claim_when_due(shared: &Shared, permits: OwnedSemaphorePermit, look_from: &mut Instant) -> Claimed {
    let request = request(shared, &permits);
    let answer = async {
        let mut answer = shared.executor().wait_claim(request).await?;
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|_| ExecutorStopped),
            () = wait_for_due(shared, look_from) => {}
        }
        shared.executor().flush_claims().await?;
        answer.await.map_err(|_| ExecutorStopped)
    };
    (permits, unless_kept(answer).await)
}

/// The answer, unless a test keeps the claim from the executor.
async fn unless_kept(
    answer: impl Future<Output = Result<ClaimAnswer, ExecutorStopped>>,
) -> Result<ClaimAnswer, ExecutorStopped> {
    match failpoint_error("claim.before_commit") {
        Ok(()) => answer.await,
        Err(fault) => Ok(ClaimAnswer { outcome: Err(fault.into()), begun: Instant::now() }),
    }
}

fn request(shared: &Shared, permits: &OwnedSemaphorePermit) -> ClaimRequest {
    ClaimRequest {
        worker: shared.id,
        lanes: shared.lanes.clone(),
        limit: u32::try_from(permits.num_permits()).unwrap_or(u32::MAX),
        lease: shared.options.lease,
    }
}

/// One task a run, each with its permit; spare permits go back.
fn start_drives(shared: &Arc<Shared>, runs: Vec<ClaimedRun>, begun: Instant, mut permits: OwnedSemaphorePermit) {
    for run in runs {
        send_claimed(shared.client.observers(), &run, shared.id);
        let guard = shared.claims.insert(run.claim, begun + shared.options.lease);
        let slot = Slot { permit: permits.split(1), _drive: shared.drives.subscribe() };
        let span = tracing::info_span!("run", id = %run.claim.run_id, workflow = run.lane.workflow);
        // Boxed while it is small to move: tokio and the span would pass all of its state on, seven times.
        let driven = Box::pin(drive(Arc::clone(shared), Box::new(run), guard, slot));
        tokio::spawn(driven.instrument(span));
    }
}

/// After a claim whose effect is unknown: what it may have claimed is given back, for nobody drives it.
async fn recover(shared: &Shared, error: &DatabaseError) {
    tracing::warn!(error = error as &dyn std::error::Error, "claim failed, trying again");
    tokio::time::sleep(FAILURE_DELAY).await;
    let release = Write::ReleaseUnknown { worker: shared.id, known: shared.claims.all() };
    if let Ok(Outcome::Refused(error)) = shared.executor().commit(release).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "claims not given back; they end with their lease");
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use futures::poll;
    use workflow_sdk::DatabaseErrorKind;

    use super::*;

    #[tokio::test]
    async fn a_permit_that_comes_free_while_a_claim_is_under_way_is_claimed_for() {
        let shared = Shared::idle(3).await;
        let free = || shared.permits.available_permits();
        let [first, second] = [(); 2].map(|()| Arc::clone(&shared.permits).try_acquire_owned().unwrap());

        // Whoever answers runs on this thread, too: not before the next await.
        let mut claims = Box::pin(claim_while_due(&shared));
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 0);
        drop(first);
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 0, "a second claim has it");
        drop(second);
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 1, "there are never three");
        assert!(matches!(claims.await, Ok(Next::Wait)));
        assert_eq!(free(), 3, "nothing was due");
    }

    #[test]
    fn what_is_unknown_of_one_claim_is_known_of_no_later_one() {
        let unknown = || Next::Recover(DatabaseError::new(DatabaseErrorKind::Unreachable, "claim runs", "gone"));
        assert!(matches!(unknown().and(Next::Claim), Next::Recover(_)));
        assert!(matches!(unknown().and(Next::Wait), Next::Recover(_)));
        assert!(matches!(Next::Wait.and(unknown()), Next::Recover(_)));
        assert!(matches!(Next::Wait.and(Next::Claim), Next::Claim));
    }
}
