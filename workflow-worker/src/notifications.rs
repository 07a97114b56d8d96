//! Forwards the notifications of this process and of others to the drives that they concern.
//!
//! A notification may be missed. The next renewal of the lease reports the same changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use workflow_engine::executor::Cancel;
use workflow_sdk::RunId;

use crate::claim_state::Directive;
use crate::claims::ClaimTable;
use crate::shared::Shared;

/// The shortest pause between two looks at the runs that wait for external events. Other processes
/// send at most 20 hints per second each.
const WAITING_PAUSE: Duration = Duration::from_millis(50);

/// The shortest pause between two looks at all runs of the worker.
const ALL_PAUSE: Duration = Duration::from_millis(250);

/// How much longer than a look at all runs the pause after it is at least. So a worker that holds
/// thousands of runs spends little of its time on these looks.
const PAUSE_PER_LOOK: u32 = 10;

/// The runs of a worker at which it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// The runs that wait for external events, for their wakes.
    Waiting,
    /// All runs, for cancels and pauses: they also concern a run whose body runs.
    All,
}

impl Runs {
    /// Returns the pause after a look that took this long.
    fn pause_after(self, took: Duration) -> Duration {
        match self {
            Self::Waiting => WAITING_PAUSE,
            Self::All => ALL_PAUSE.max(took.saturating_mul(PAUSE_PER_LOOK)),
        }
    }
}

/// Tells the drives of wakes, cancels and pauses, until the future is dropped: of wakes by commits
/// of this process at once, of the others after a hint.
pub(crate) async fn forward_wakes(shared: Arc<Shared>) {
    let (shared, notifier) = (shared.as_ref(), shared.executor().notifier());
    let (wakes, changes, unannounced) = (notifier.wakes(), notifier.changes(), notifier.unannounced());
    forward(&shared.claims, wakes, (changes, unannounced), |runs| look(shared, runs)).await;
}

/// Forwards the wakes of this process. Looks at the waiting runs after each of the `changes`, and
/// at all runs after each of the `unannounced` ones.
async fn forward<L: Future<Output = ()>>(
    claims: &ClaimTable,
    mut wakes: broadcast::Receiver<RunId>,
    (changes, unannounced): (watch::Receiver<u64>, watch::Receiver<u64>),
    look: impl Fn(Runs) -> L,
) {
    let own = async {
        loop {
            match wakes.recv().await {
                Ok(run) => claims.wake_run(run),
                Err(RecvError::Lagged(_)) => look(Runs::Waiting).await,
                Err(RecvError::Closed) => return,
            }
        }
    };
    // Side by side, so that a wake of this process waits for no look and for no pause.
    tokio::select! {
        biased;
        () = own => {}
        () = look_after(changes, Runs::Waiting, &look) => {}
        () = look_after(unannounced, Runs::All, &look) => {}
    }
}

/// Looks at these runs after each change, and then pauses. Changes that come meanwhile have one
/// look after that.
async fn look_after<L: Future<Output = ()>>(mut changes: watch::Receiver<u64>, runs: Runs, look: impl Fn(Runs) -> L) {
    while changes.changed().await.is_ok() {
        let begun = Instant::now();
        look(runs).await;
        tokio::time::sleep(runs.pause_after(begun.elapsed())).await;
    }
}

/// Reads what others have asked of these runs, with one query.
async fn look(shared: &Shared, runs: Runs) {
    let claims = match runs {
        Runs::Waiting => shared.claims.waiting(),
        Runs::All => shared.claims.all(),
    };
    if claims.is_empty() {
        return;
    }
    let ids: Vec<RunId> = claims.iter().map(|claim| claim.run_id).collect();
    match shared.client.store().wakes(&ids).await {
        Ok(asked) => shared.claims.take_asked(&claims, &asked),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot look for wakes, cancels and pauses; the next renewal of the lease will"
            );
        }
    }
}

/// Forwards pauses that this process committed, until the future is dropped.
pub(crate) async fn forward_pauses(shared: Arc<Shared>) {
    let mut pauses = shared.executor().notifier().pauses();
    loop {
        match pauses.recv().await {
            // As when the worker stops: running bodies may end, the rest waits in the database.
            Ok(run) => shared.claims.direct_run(run, Directive::Drain),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Forwards cancels and terminations that this process committed, until the future is dropped.
pub(crate) async fn forward_cancels(shared: Arc<Shared>) {
    let mut cancels = shared.executor().notifier().cancels();
    loop {
        match cancels.recv().await {
            Ok(Cancel::Requested(run)) => shared.claims.request_cancel_of_run(run),
            Ok(Cancel::Terminated(run)) => shared.claims.direct_run(run, Directive::Lost),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Gives the runs of this worker back whenever a run of the process must be driven alone, as soon
/// as their running bodies have ended. Returns when the future is dropped.
pub(crate) async fn make_way(shared: Arc<Shared>) {
    loop {
        let suspect = shared.quarantine.closed().await;
        shared.claims.direct_others(suspect, Directive::Drain);
        shared.quarantine.open_after(suspect).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use workflow_engine::model::Claim;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Runs the test beside the forwarding of these wakes and hints. Each look takes `look`.
    /// Returns the looks with the times at which they began, in milliseconds.
    async fn beside_forwarding(
        claims: &ClaimTable,
        (wakes, hints): (&broadcast::Sender<RunId>, &watch::Sender<u64>),
        look: Duration,
        test: impl Future<Output = ()>,
    ) -> Vec<(Runs, u128)> {
        let (begun, looks) = (Instant::now(), RefCell::new(Vec::new()));
        let look = |runs| {
            looks.borrow_mut().push((runs, begun.elapsed().as_millis()));
            tokio::time::sleep(look)
        };
        tokio::select! {
            biased;
            () = forward(claims, wakes.subscribe(), (hints.subscribe(), hints.subscribe()), look) => panic!("it ended"),
            () = test => {}
        }
        looks.into_inner()
    }

    fn hint(hints: &watch::Sender<u64>) {
        hints.send_modify(|count| *count += 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_of_this_process_waits_for_no_look_and_no_pause() {
        let claims = Arc::new(ClaimTable::default());
        let claim = Claim { run_id: RunId::generate(), epoch: 1 };
        let guard = claims.insert(claim, Instant::now() + HOUR);
        let (wakes, hints) = (broadcast::Sender::new(9), watch::Sender::new(0));
        let begun = Instant::now();
        let test = async {
            hint(&hints);
            // During the looks, and in the pauses after them.
            for wait in [5, 20] {
                tokio::time::sleep_until(begun + Duration::from_millis(wait)).await;
                wakes.send(claim.run_id).unwrap();
                guard.state().notified().await;
                assert!(begun.elapsed() < Duration::from_millis(wait + 5), "{:?}", begun.elapsed());
            }
        };
        let looks = beside_forwarding(&claims, (&wakes, &hints), Duration::from_millis(10), test).await;
        assert_eq!(looks, [(Runs::Waiting, 0), (Runs::All, 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_looks_after_hints_are_bounded_and_the_last_hint_has_one() {
        for (look, pause) in [(0, 250), (100, 1000)] {
            let (claims, wakes, hints) = (ClaimTable::default(), broadcast::Sender::new(9), watch::Sender::new(0));
            let test = async {
                for _ in 0..400 {
                    hint(&hints);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                tokio::time::sleep(HOUR).await;
            };
            let looks = beside_forwarding(&claims, (&wakes, &hints), Duration::from_millis(look), test).await;
            let times = |of| looks.iter().filter(|(runs, _)| *runs == of).map(|(_, at)| *at).collect::<Vec<_>>();
            for (of, pause) in [(Runs::Waiting, 50), (Runs::All, pause)] {
                let times = times(of);
                assert!(
                    times.windows(2).all(|pair| pair[1] - pair[0] >= u128::from(look) + pause),
                    "{of:?}: {times:?}"
                );
                let last_hint = 399 * 5;
                assert!(times.last().is_some_and(|at| *at >= last_hint), "{of:?}: {times:?}");
            }
        }
        // Without a hint there is no look.
        let (claims, wakes, hints) = (ClaimTable::default(), broadcast::Sender::new(9), watch::Sender::new(0));
        let looks = beside_forwarding(&claims, (&wakes, &hints), Duration::ZERO, tokio::time::sleep(HOUR)).await;
        assert_eq!(looks, []);
    }
}
