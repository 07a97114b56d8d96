//! A worker that works once: it ends when it is idle and nothing is due.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use workflow_sdk::DatabaseError;

use crate::claim::ClaimLoop;
use crate::schedules::schedules_are_due;
use crate::shared::Shared;
use crate::{Worker, WorkerError};

/// The pause after a claim that found fewer runs than it asked for. The claims of such a worker are
/// not kept in the executor, because the answer of each says whether anything is due.
const CLAIM_INTERVAL: Duration = Duration::from_millis(50);

/// Added to the delay of a run that was given back, because the clock of the database decides when
/// the run is due.
const CLOCK_SLACK: Duration = Duration::from_millis(200);

/// The latest time at which a run that this worker gave back is due again.
#[derive(Debug, Default)]
pub(crate) struct GivenBack(Mutex<Option<Instant>>);

impl GivenBack {
    /// Notes a run that is due again after this time.
    pub(crate) fn note(&self, delay: Duration) {
        let due = Instant::now().checked_add(delay);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last).max(due);
    }

    /// Returns `true` while a run that was given back is not due yet.
    fn is_awaited(&self) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|due| Instant::now() < due + CLOCK_SLACK)
    }
}

impl<S: Send + Sync + 'static> Worker<S> {
    /// Works until nothing is due, and ends. For tests, and for hosts that start a program now and
    /// then instead of keeping it running. SIGTERM and SIGINT end it as they end [`Worker::run`].
    ///
    /// Nothing is due if the worker drives no run, could claim no run of its workflows, versions
    /// and queues now, and no schedule is due whose input it can give. So it does not wait for runs
    /// that sleep, are delayed, wait for something or are paused. Nor does it wait for runs in a
    /// paused queue, behind a limit that is used up, or held by another worker, even by a dead one
    /// whose death was not found yet. It does wait for a run whose wait is shorter than the
    /// [linger](crate::WorkerOptions::linger), and for a run that it holds back because its workers
    /// died. It does not wait for bulk operations and the retention.
    ///
    /// # Errors
    /// See [`Worker::run`]. If the database fails to answer, the worker tries again.
    ///
    /// # Cancel safety
    /// See [`Worker::run`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_worker::Worker;
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     ok(format!("hello, {name}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(greet, "Ada".to_owned()).await?;
    /// Worker::new(client, ()).register(greet).run_once().await?;
    /// assert_eq!(run.result().await?, "hello, Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_once(self) -> Result<(), WorkerError> {
        self.run_until_signals(true).await
    }
}

/// Claims runs and starts their drives, until the worker drives nothing and nothing is due.
/// `computed` names the schedules whose inputs the worker computes.
pub(crate) async fn claim_until_idle(shared: Arc<Shared>, computed: Vec<String>) -> Result<(), WorkerError> {
    let mut claims = ClaimLoop::begin(&shared).await;
    loop {
        // Read before the claim, so that the claim finds the runs that the last drives and the
        // fired schedules have made due.
        let drives_nothing = shared.drives.is_closed() && !shared.given_back.is_awaited();
        let was_idle = drives_nothing && !unless_it_fails(schedules_are_due(&shared, &computed).await);
        let Some(claimed) = claims.claim(&shared).await? else { continue };
        if was_idle && claimed == 0 && !unless_it_fails(runs_are_due(&shared).await) {
            return Ok(());
        }
        tokio::time::sleep(CLAIM_INTERVAL).await;
    }
}

/// Returns whether something is due. Returns `true` if the database fails to answer.
fn unless_it_fails(due: Result<bool, DatabaseError>) -> bool {
    due.unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot look whether anything is due, trying again");
        true
    })
}

/// Returns whether runs are due that the last claim has left for the next one: a claim looks at a
/// bounded number of gates.
async fn runs_are_due(shared: &Shared) -> Result<bool, DatabaseError> {
    let lanes = shared.queues.open_lanes(&shared.lanes, Instant::now());
    let next = shared.client.store().next_due(&lanes).await?;
    Ok(next.at.is_some_and(|at| at <= next.now))
}
