//! The claim loop of a worker.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;
use workflow_engine::executor::{ClaimAnswer, ExecutorStopped};
use workflow_engine::faults::failpoint_error;
use workflow_engine::observe::Event;
use workflow_engine::store::{ClaimRequest, ClaimedRun, Outcome, Write};
use workflow_sdk::{DatabaseError, Timestamp};

use crate::WorkerError;
use crate::drive::{Beginning, drive, send_claimed};
use crate::due::{DueWatch, FAILURE_DELAY, wait_for_due};
use crate::queue_watch::{hold_until, look_in_process};
use crate::shared::{Shared, Slot};

/// The most runs that one statement claims. It bounds the time for which the statement holds its
/// rows.
const MAX_CLAIM: usize = 500;

/// Up to this number, a claim may take all free permits. A claim is a commit, so small claims would
/// be costly.
const MIN_CLAIM: usize = 64;

/// The most claims that may be under way while more runs are due. The executor prepares one batch
/// while it commits another. With a single claim, the permit of a run that ends in one batch would
/// stay idle until the claim in the other batch is answered.
const MOST_CLAIMS: usize = 2;

/// Claims runs and starts their drives, until the future is dropped or the executor stops.
pub(crate) async fn claim_runs(shared: Arc<Shared>) -> WorkerError {
    shared.executor().notifier().listen().await;
    let mut watch = DueWatch::new(&shared);
    let mut next = Next::Claim;
    loop {
        next = match claim_next(&shared, next, &mut watch).await {
            Ok(next) => next,
            Err(stopped) => return stopped.into(),
        };
    }
}

/// Claims at once or as soon as a run may be due, then again while more runs are due.
async fn claim_next(shared: &Arc<Shared>, next: Next, watch: &mut DueWatch) -> Result<Next, ExecutorStopped> {
    if let Next::Recover(error) = &next {
        recover(shared, error).await;
    }
    let permits = open_permits(shared).await;
    let (permits, answer) = match next {
        Next::Wait => claim_when_due(shared, permits, watch).await,
        Next::Claim | Next::Recover(_) => claim_now(shared, permits).await,
    };
    match handle_answer(shared, permits, answer?) {
        Next::Claim => claim_while_due(shared).await,
        next => Ok(next),
    }
}

/// Claims until a claim finds fewer runs than it asked for.
async fn claim_while_due(shared: &Arc<Shared>) -> Result<Next, ExecutorStopped> {
    let mut under_way = FuturesOrdered::new();
    let mut next = Next::Claim;
    loop {
        tokio::select! {
            biased;
            Some((permits, answer)) = under_way.next() => next = next.and(handle_answer(shared, permits, answer?)),
            permits = open_permits(shared), if matches!(next, Next::Claim) && under_way.len() < MOST_CLAIMS => {
                under_way.push_back(claim_now(shared, permits));
                continue;
            }
        }
        // Every claim must have its answer first: the runs of the other claim are to be driven, not
        // given back.
        if under_way.is_empty() && !matches!(next, Next::Claim) {
            return Ok(next);
        }
    }
}

/// The claims of a worker that works once: each is committed at once.
pub(crate) struct ClaimLoop {
    next: Next,
}

impl ClaimLoop {
    /// Begins to listen for hints.
    pub(crate) async fn begin(shared: &Shared) -> Self {
        shared.executor().notifier().listen().await;
        Self { next: Next::Claim }
    }

    /// Claims at once, and starts the drives of the claimed runs. Returns how many there are, or
    /// `None` if more may be due: the claim found as many as it asked for, or its effect is
    /// unknown.
    pub(crate) async fn claim(&mut self, shared: &Arc<Shared>) -> Result<Option<usize>, ExecutorStopped> {
        if let Next::Recover(error) = &self.next {
            recover(shared, error).await;
        }
        let (permits, answer) = claim_now(shared, open_permits(shared).await).await;
        let answer = answer?;
        let claimed = answer.outcome.as_ref().map_or(0, |claimed| claimed.runs.len());
        self.next = handle_answer(shared, permits, answer);
        Ok(matches!(self.next, Next::Wait).then_some(claimed))
    }
}

/// The action after a claim.
enum Next {
    /// Claim again: the claim found as many runs as it asked for, or nothing is known yet.
    Claim,
    /// Claim when a run may be due: the claim found fewer runs than it asked for.
    Wait,
    /// Give back the runs that the claim may have claimed, then claim again: the effect of the
    /// claim is unknown.
    Recover(DatabaseError),
}

impl Next {
    /// Returns the action after two claims.
    fn and(self, later: Self) -> Self {
        if matches!(self, Self::Recover(_)) { self } else { later }
    }
}

/// Starts the drives of the claimed runs, and returns the action after the claim.
fn handle_answer(shared: &Arc<Shared>, permits: OwnedSemaphorePermit, answer: ClaimAnswer) -> Next {
    let ClaimAnswer { outcome, begun } = unless_lost(answer);
    match outcome {
        Ok(claimed) => {
            shared.clock.set(claimed.now);
            shared.lane_order.note(&claimed.runs, &shared.queues.gated());
            shared.queues.hold_back(&claimed, hold_until(shared));
            let (wanted, claimed_runs) = (permits.num_permits(), claimed.runs.len());
            let (worker, duration) = (shared.id, begun.elapsed());
            let answered = Event::ClaimAnswered { worker, wanted, claimed: claimed_runs, duration };
            shared.client.observers().event(&answered);
            let more_are_due = claimed_runs == wanted;
            claimed.runs.iter().for_each(|run| count_begun(shared, run, claimed.now));
            start_drives(shared, claimed.runs, begun, permits);
            if more_are_due { Next::Claim } else { Next::Wait }
        }
        Err(error) => Next::Recover(error),
    }
}

/// Takes permits once the process may drive more runs.
async fn open_permits(shared: &Shared) -> OwnedSemaphorePermit {
    shared.quarantine.open().await;
    take_permits(shared).await
}

/// Takes the free permits, and waits until there is one. Permits are taken before the claim, so
/// that every claimed run is driven.
async fn take_permits(shared: &Shared) -> OwnedSemaphorePermit {
    shared.saturation.set(shared.permits.available_permits() == 0);
    let first = Arc::clone(&shared.permits).acquire_owned().await;
    shared.saturation.set(false);
    let Ok(mut permits) = first else {
        // The semaphore is never closed.
        return std::future::pending().await;
    };
    // One commit ends many runs. Their drives give their permits back during this yield.
    tokio::task::yield_now().await;
    let more = shared.permits.available_permits().min(largest_claim(shared.options.concurrency as usize) - 1);
    if let Ok(more) = Arc::clone(&shared.permits).try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
        permits.merge(more);
    }
    permits
}

/// Returns the most runs that a worker with this concurrency claims at once: an eighth of it. Runs
/// that are claimed together end together. Then one commit would have all the ends and claims and
/// the next ones none, and the database and the drives would wait for each other in turn.
fn largest_claim(concurrency: usize) -> usize {
    (concurrency / 8).clamp(MIN_CLAIM, MAX_CLAIM)
}

/// Returns the answer, unless a test loses it.
fn unless_lost(answer: ClaimAnswer) -> ClaimAnswer {
    let ClaimAnswer { outcome, begun } = answer;
    let outcome = outcome.and_then(|claimed| {
        if !claimed.runs.is_empty() {
            failpoint_error("claim.after_commit")?;
        }
        Ok(claimed)
    });
    ClaimAnswer { outcome, begun }
}

/// Permits, and the answer to the claim of this number of runs.
type Claimed = (OwnedSemaphorePermit, Result<ClaimAnswer, ExecutorStopped>);

/// Claims at once.
async fn claim_now(shared: &Shared, permits: OwnedSemaphorePermit) -> Claimed {
    look_in_process(shared).await;
    let request = request(shared, &permits);
    let answer = async { shared.executor().claim(request).await?.await.map_err(|_| ExecutorStopped) };
    (permits, unless_withheld(answer).await)
}

/// Claims as soon as a run may be due. If a commit of this process makes a run due, that commit
/// claims it. Otherwise the claim is committed after a notification, at the next due time, or after
/// the poll interval.
async fn claim_when_due(shared: &Shared, permits: OwnedSemaphorePermit, watch: &mut DueWatch) -> Claimed {
    look_in_process(shared).await;
    let request = request(shared, &permits);
    let answer = async {
        let mut answer = shared.executor().wait_claim(request).await?;
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|_| ExecutorStopped),
            () = wait_for_due(shared, watch) => {}
        }
        shared.executor().flush_claims().await?;
        answer.await.map_err(|_| ExecutorStopped)
    };
    (permits, unless_withheld(answer).await)
}

/// Returns the answer, unless a test withholds the claim from the executor.
async fn unless_withheld(
    answer: impl Future<Output = Result<ClaimAnswer, ExecutorStopped>>,
) -> Result<ClaimAnswer, ExecutorStopped> {
    match failpoint_error("claim.before_commit") {
        Ok(()) => answer.await,
        Err(fault) => Ok(ClaimAnswer { outcome: Err(fault.into()), begun: Instant::now() }),
    }
}

fn request(shared: &Shared, permits: &OwnedSemaphorePermit) -> ClaimRequest {
    let gated = shared.queues.gated();
    ClaimRequest {
        worker: shared.id,
        lanes: shared.queues.unpaused(shared.lane_order.next()),
        limited: shared.queues.limited(),
        gates_first: shared.lane_order.gates_first(&gated),
        gated,
        limit: u32::try_from(permits.num_permits()).unwrap_or(u32::MAX),
        lease: shared.options.lease,
    }
}

/// Counts the first claim of a run, once for all its generations. A fork has an epoch before its
/// first claim.
fn count_begun(shared: &Shared, run: &ClaimedRun, now: Timestamp) {
    let is_first = match run.claim.epoch {
        _ if run.generation > 0 => false,
        1 => true,
        2 => run.started_at >= now,
        _ => false,
    };
    if is_first {
        shared.executor().statistics().begun(&run.lane, run.started_at.since(run.created_at));
    }
}

/// Starts one task per run, each with a permit. Spare permits go back.
fn start_drives(shared: &Arc<Shared>, runs: Vec<ClaimedRun>, begun: Instant, mut permits: OwnedSemaphorePermit) {
    // All runs of the claim are present before one of them begins: if that one must be driven
    // alone, it waits until the others have left.
    let decide = |run: ClaimedRun| (Beginning::of(shared, &run), run);
    let runs: Vec<_> = runs.into_iter().map(decide).collect();
    for (beginning, run) in runs {
        send_claimed(shared.client.observers(), &run, shared.id);
        let guard = shared.claims.insert(run.claim, begun + shared.options.lease);
        let slot = Slot { permit: permits.split(1), _drive: shared.drives.subscribe() };
        let span = tracing::info_span!("run", id = %run.claim.run_id, workflow = run.lane.workflow);
        // Boxed before it is spawned, because tokio and the span would copy the whole future
        // several times.
        let driven = Box::pin(drive(Arc::clone(shared), Box::new(run), beginning, guard, slot));
        tokio::spawn(driven.instrument(span));
    }
}

/// Gives back the runs of a claim whose effect is unknown, because no drive has them.
async fn recover(shared: &Shared, error: &DatabaseError) {
    tracing::warn!(error = error as &dyn std::error::Error, "claim failed, trying again");
    tokio::time::sleep(FAILURE_DELAY).await;
    let release = Write::ReleaseUnknown { worker: shared.id, known: shared.claims.all() };
    if let Ok(Outcome::Refused(error)) = shared.executor().commit(release).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "claims not given back; they end with their leases");
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use futures::poll;
    use workflow_sdk::DatabaseErrorKind;

    use super::*;

    #[tokio::test]
    async fn a_permit_that_is_freed_during_a_claim_is_used_by_a_second_claim() {
        let shared = Shared::idle(3).await;
        let free = || shared.permits.available_permits();
        let [first, second] = [(); 2].map(|()| Arc::clone(&shared.permits).try_acquire_owned().unwrap());

        // The executor of this store runs on this thread, so it cannot answer before the next
        // await.
        let mut claims = Box::pin(claim_while_due(&shared));
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 0);
        drop(first);
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 0, "a second claim takes the permit");
        drop(second);
        for _ in 0..2 {
            assert!(poll!(&mut claims).is_pending());
        }
        assert_eq!(free(), 1, "there is no third claim");
        assert!(matches!(claims.await, Ok(Next::Wait)));
        assert_eq!(free(), 3, "nothing was due");
    }

    #[test]
    fn a_claim_with_an_unknown_effect_is_recovered_whatever_the_other_claim_found() {
        let unknown = || Next::Recover(DatabaseError::new(DatabaseErrorKind::Unreachable, "claim runs", "gone"));
        assert!(matches!(unknown().and(Next::Claim), Next::Recover(_)));
        assert!(matches!(unknown().and(Next::Wait), Next::Recover(_)));
        assert!(matches!(Next::Wait.and(unknown()), Next::Recover(_)));
        assert!(matches!(Next::Wait.and(Next::Claim), Next::Claim));
    }
}
