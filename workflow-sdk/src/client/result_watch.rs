use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use workflow_engine::executor::{ExecutorStopped, Notifier};
use workflow_engine::model::RunId;
use workflow_engine::store::{DatabaseError, EndedRun, Store};

use super::{Client, ClientError};
use crate::operate::ChangeWatch;

/// Poll interval while few runs are awaited: bounds the delay of a result whose notifications were
/// all lost.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Poll interval per awaited run, used when it exceeds [`POLL_INTERVAL`]. One query reads all
/// awaited runs, so the interval grows with their number to keep the use of a processor constant.
const POLL_INTERVAL_A_RUN: Duration = Duration::from_micros(200);

/// The time between two looks for awaited runs that the database does not have, in poll intervals.
/// Deletions by other processes are found only by this look.
const POLLS_PER_LOOK_FOR_MISSING: u32 = 4;

/// Poll interval on a store in this process: it loses no notification, and its clock may jump over
/// months.
const RARE_POLL_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Shortest time between two queries for all awaited runs: hints can come at any rate, and each
/// query costs. It is shorter than a run takes, so that runs one after the other never wait for it.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const PAUSE_A_RUN: Duration = Duration::from_micros(20);

/// The age up to which a run counts as fresh: it may end within [`FIRST_QUESTION_DELAY`].
const FRESH: Duration = Duration::from_millis(100);

/// How long a wait for a fresh run relies on the executor's report before it asks the database
/// whether the run has ended. Most runs that this process drives end sooner.
const FIRST_QUESTION_DELAY: Duration = Duration::from_millis(10);

/// All waits for results in this process. The executor reports runs that end here; for other runs
/// one task polls, with one query for all of them.
pub(super) struct ResultWatch {
    store: Arc<dyn Store>,
    notifier: Arc<Notifier>,
    /// Runs that were not queried yet: they may have ended before the wait began.
    new: Mutex<Vec<RunId>>,
    added: Notify,
    task: OnceCell<()>,
}

impl ResultWatch {
    pub(super) fn new(store: Arc<dyn Store>, notifier: Arc<Notifier>) -> Arc<Self> {
        Arc::new(Self { store, notifier, new: Mutex::default(), added: Notify::new(), task: OnceCell::new() })
    }

    /// Waits until this run has ended.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`] if the database does not have the run.
    pub(super) async fn wait(self: &Arc<Self>, id: RunId) -> Result<EndedRun, ClientError> {
        self.start_task().await;
        // The wait is registered before the query, so an end in between is reported.
        let mut ended = self.notifier.wait_ended(id);
        if self.is_fresh(id)
            && let Ok(ended) = tokio::time::timeout(FIRST_QUESTION_DELAY, &mut ended).await
        {
            return ended.map_err(|_| ExecutorStopped)?.ok_or(ClientError::UnknownRun { run_id: id });
        }
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.added.notify_one();
        ended.await.map_err(|_| ExecutorStopped)?.ok_or(ClientError::UnknownRun { run_id: id })
    }

    /// A store in this process is always asked: on its clock a pause may be a long time.
    fn is_fresh(&self, id: RunId) -> bool {
        let age = SystemTime::now().duration_since(id.time().into());
        !self.store.in_process() && age.is_ok_and(|age| age <= FRESH)
    }

    async fn start_task(self: &Arc<Self>) {
        self.notifier.listen().await;
        let start = async || {
            tokio::spawn(watch_runs(Arc::downgrade(self), self.notifier.changes()));
        };
        self.task.get_or_init(start).await;
    }

    fn take_new(&self) -> Vec<RunId> {
        std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask(&self, runs: &[RunId]) -> Result<(), DatabaseError> {
        if runs.is_empty() {
            return Ok(());
        }
        for ended in self.store.ended(runs).await? {
            self.notifier.notify_ended(ended.id, || ended);
        }
        Ok(())
    }

    async fn look_for_missing(&self) -> Result<(), DatabaseError> {
        let awaited = self.notifier.awaited();
        if !awaited.is_empty() {
            self.store.missing(&awaited).await?.into_iter().for_each(|id| self.notifier.notify_missing(id));
        }
        Ok(())
    }
}

async fn watch_runs(results: Weak<ResultWatch>, mut changes: watch::Receiver<u64>) {
    let mut next_question = Instant::now();
    let mut next_look_for_missing = next_question + POLL_INTERVAL * POLLS_PER_LOOK_FOR_MISSING;
    let in_process = results.upgrade().is_some_and(|results| results.store.in_process());
    let mut awaited = 0;
    loop {
        let Some(results) = results.upgrade() else { return };
        let now = Instant::now();
        let for_all = changes.has_changed().unwrap_or(true) && now >= next_question;
        let new = results.take_new();
        let runs = if for_all {
            changes.mark_unchanged();
            results.notifier.awaited()
        } else {
            new
        };
        // A deleted run had ended, and a store in this process loses no notification of an end.
        let looks_for_missing = if in_process { for_all } else { now >= next_look_for_missing };
        if looks_for_missing {
            next_look_for_missing = now + poll_interval_of(awaited) * POLLS_PER_LOOK_FOR_MISSING;
        }
        let mut answer = results.ask(&runs).await;
        if looks_for_missing && answer.is_ok() {
            answer = results.look_for_missing().await;
        }
        if let Err(error) = answer {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for ended runs, trying again");
            tokio::time::sleep(POLL_INTERVAL).await;
            changes.mark_changed();
        }
        if for_all {
            awaited = u32::try_from(runs.len()).unwrap_or(u32::MAX);
            next_question = now + SHORTEST_PAUSE + PAUSE_A_RUN * awaited;
        }
        let poll_interval = if in_process { RARE_POLL_INTERVAL } else { poll_interval_of(awaited) };
        let pause = if changes.has_changed().unwrap_or(false) {
            next_question.saturating_duration_since(Instant::now())
        } else {
            poll_interval
        };
        // A steady flow of added runs must not keep this task from the other runs.
        tokio::select! {
            biased;
            changed = changes.changed(), if pause == poll_interval => if changed.is_err() { return } else { changes.mark_changed() },
            () = tokio::time::sleep(pause) => changes.mark_changed(),
            () = results.added.notified() => {}
        }
    }
}

/// Returns the poll interval without hints, after a query for this number of runs.
fn poll_interval_of(awaited: u32) -> Duration {
    POLL_INTERVAL.max(POLL_INTERVAL_A_RUN * awaited)
}

impl fmt::Debug for ResultWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultWatch").finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn results(&self) -> &Arc<ResultWatch> {
        &self.0.results
    }

    /// Returns the watch that all callers of `changes` share.
    pub(crate) fn change_watch(&self) -> &ChangeWatch {
        &self.0.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_rarer_the_more_is_waited_for() {
        assert_eq!(poll_interval_of(0), Duration::from_millis(500));
        assert_eq!(poll_interval_of(2_500), Duration::from_millis(500));
        assert_eq!(poll_interval_of(20_000), Duration::from_secs(4));
    }
}
