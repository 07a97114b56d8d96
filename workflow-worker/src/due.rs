//! The next run that becomes due without a commit of this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use workflow_engine::faults::planted;
use workflow_engine::store::NextDue;
use workflow_sdk::{DatabaseError, DatabaseErrorKind, Timestamp};

use crate::queue_watch::GATE_INTERVAL;
use crate::shared::Shared;

/// How long the worker waits after the database failed to answer.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// The shortest time between two queries for the next due run. A process may park hundreds of runs
/// per second.
const QUERY_INTERVAL: Duration = Duration::from_millis(20);

/// Returns at the time of the next look, or after a hint that there may be something earlier, but
/// not before `soonest`.
pub(crate) async fn wait_for_look(hints: &mut watch::Receiver<u64>, at: Instant, soonest: Instant) {
    let hinted = async {
        // An error means that the executor has ended, and the worker ends with it.
        let _ = hints.changed().await;
        tokio::time::sleep_until(at.min(soonest)).await;
    };
    tokio::select! {
        biased;
        () = tokio::time::sleep_until(at) => {}
        () = hinted => {}
    }
}

/// The answer to a query, and when it came: the worker may read it only after its next claims.
type Answer = (Instant, Result<NextDue, DatabaseError>);

/// Tells a worker when runs may be due: by queries of its own, and by hints of other processes.
#[derive(Debug)]
pub(crate) struct DueWatch {
    query: DueQuery,
    /// See [`Notifier::due`](workflow_engine::executor::Notifier::due).
    hints: watch::Receiver<u64>,
}

impl DueWatch {
    /// Returns a watch whose first query is due at once.
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { query: DueQuery::new(), hints: shared.executor().notifier().due() }
    }
}

/// The queries for the next due run.
#[derive(Debug)]
struct DueQuery {
    /// The time of the next query.
    at: Instant,
    /// The time of the last query.
    last: Option<Instant>,
    /// See [`Notifier::later`](workflow_engine::executor::Notifier::later), before the last query.
    later: u64,
    /// The query that is under way. It is a task of its own, because a connection whose query is
    /// dropped has to be closed, and a new one costs the server far more than the query.
    under_way: Option<JoinHandle<Answer>>,
}

impl DueQuery {
    fn new() -> Self {
        Self { at: Instant::now(), last: None, later: 0, under_way: None }
    }

    /// Returns the answer to the query that is under way, or to the next one at its time.
    ///
    /// # Cancel safety
    /// A query that has begun goes on, and the next call returns its answer.
    async fn answer(&mut self, shared: &Shared) -> Answer {
        let query = match &mut self.under_way {
            Some(query) => query,
            none => {
                tokio::time::sleep_until(self.at).await;
                let now = Instant::now();
                self.later = shared.executor().notifier().later();
                (self.last, self.at) = (Some(now), now + QUERY_INTERVAL);
                let lanes = shared.queues.open_lanes(&shared.lanes, now);
                let store = Arc::clone(shared.client.store());
                if store.in_process() {
                    let next = store.next_due(&lanes).await;
                    return (Instant::now(), next);
                }
                none.insert(tokio::spawn(async move {
                    let next = store.next_due(&lanes).await;
                    (Instant::now(), next)
                }))
            }
        };
        let answer = query.await;
        self.under_way = None;
        let aborted = |error| DatabaseError::new(DatabaseErrorKind::Other, "look for due runs", error);
        answer.unwrap_or_else(|error| (Instant::now(), Err(aborted(error))))
    }

    /// Notes that the last answer may be wrong by now.
    fn expire(&mut self) {
        if let Some(last) = self.last {
            self.at = self.at.min(last + QUERY_INTERVAL);
        }
    }

    /// Queries sooner, if the last answer may be wrong by now or a queue may have room earlier.
    fn hurry(&mut self, shared: &Shared) {
        let now = Instant::now();
        if self.later != shared.executor().notifier().later() {
            self.expire();
        }
        if shared.queues.has_full_gates() {
            let left = self.at.saturating_duration_since(now);
            self.at = self.at.min(now + shared.pace(GATE_INTERVAL, left));
        }
        self.at = shared.queues.held_until(now).map_or(self.at, |held| held.min(self.at));
    }
}

/// Returns when a run may be due: after a notification, at the next due time, after the poll
/// interval, or when a queue that was full may have room.
pub(crate) async fn wait_for_due(shared: &Shared, DueWatch { query, hints }: &mut DueWatch) {
    let hinted = async {
        // An error means that the executor has ended, and the claim ends with it.
        if hints.changed().await.is_err() {
            std::future::pending().await
        }
    };
    if planted("hint-only-wake") {
        return hinted.await;
    }
    query.hurry(shared);
    let pause = async {
        loop {
            let (answered, next) = query.answer(shared).await;
            let (due, wait) = match next {
                Ok(next) => {
                    shared.clock.set_at(answered, next.now);
                    (next.at, poll_pause(shared, next.now, next.at))
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for due runs, trying again");
                    (None, FAILURE_DELAY)
                }
            };
            let until = answered + wait;
            query.at = query.at.max(until);
            query.hurry(shared);
            tokio::time::sleep_until(until.min(query.at)).await;
            if due.is_some_and(|due| due <= shared.clock.now()) {
                return;
            }
        }
    };
    let is_notified = tokio::select! {
        biased;
        () = hinted => true,
        () = shared.queues.changed() => true,
        () = pause => false,
    };
    if is_notified {
        query.expire();
    }
}

/// The time to the next due run, or the shortened poll interval if that is earlier.
fn poll_pause(shared: &Shared, now: Timestamp, due: Option<Timestamp>) -> Duration {
    let jittered = shared.options.poll_interval.mul_f64(1.0 - fastrand::f64() / 4.0);
    due.map_or(jittered, |due| due.since(now).min(jittered))
}
