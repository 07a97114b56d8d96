//! One life of an env's process: a client and, unless it has crashed, a worker, on the paused runtime of the env's thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use workflow_engine::model::WorkerId;
use workflow_sdk::{Client, DEFAULT_PAYLOAD_LIMIT, ErrorKind, Run, RunFilter, RunId, RunStatus, Timestamp};

use workflow_worker::WorkerError;

use super::crash_store::CrashStore;
use super::idle::{Hold, Idle};
use super::surroundings::Surroundings;

/// A run that has not ended after so many steps of time goes on for ever.
const MOST_STEPS: u32 = 200_000;

/// How long, in real time, a body that waits for another thread is waited for, where nothing else can go on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// What a run has come to that was followed to its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Followed {
    Ended,
    /// No passing of time brings it further.
    StandsStill,
    /// Its history does not fit the code.
    Diverged(String),
    /// It goes on for ever.
    TooLong,
}

/// See the module.
pub(super) struct Process {
    pub(super) client: Client,
    surroundings: Arc<Surroundings>,
    idle: Arc<Idle>,
    hold: Mutex<Option<Hold>>,
}

impl Process {
    /// Time stands still from the beginning.
    pub(super) fn begin(surroundings: &Arc<Surroundings>, idle: &Arc<Idle>) -> Arc<Self> {
        let store = CrashStore { inner: surroundings.database.handle(), log: Arc::clone(&surroundings.log) };
        let client = Client::over(Arc::new(store), DEFAULT_PAYLOAD_LIMIT);
        let hold = Mutex::new(Some(Hold::begin()));
        Arc::new(Self { client, surroundings: Arc::clone(surroundings), idle: Arc::clone(idle), hold })
    }

    /// Starts the worker, after the claims of the one that died.
    pub(super) fn start_worker(&self) {
        let Some(worker) = (self.surroundings.worker)(self.client.clone()) else { return };
        let (client, surroundings) = (self.client.clone(), Arc::clone(&self.surroundings));
        tokio::spawn(async move {
            let ended = match release_dead(&client).await {
                Ok(()) => worker.await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                surroundings.worker_ended(&error);
            }
        });
    }

    /// Returns when every task waits for something that has not happened.
    pub(super) async fn settle(&self) {
        self.idle.settle().await;
    }

    /// Lets so much time pass: all that becomes due in it happens in its order.
    pub(super) async fn advance(&self, by: Duration) {
        let until = Instant::now() + by;
        self.settle().await;
        self.let_time_pass();
        tokio::time::sleep_until(until).await;
        self.hold_time();
        self.settle().await;
    }

    /// Lets as much time pass as the run needs to end.
    pub(super) async fn follow(&self, run: RunId) -> Followed {
        self.settle().await;
        self.let_time_pass();
        let followed = self.follow_while_time_passes(run).await;
        self.hold_time();
        followed
    }

    async fn follow_while_time_passes(&self, id: RunId) -> Followed {
        for _ in 0..MOST_STEPS {
            match self.client.run(id).await {
                Ok(run) if run.status.is_terminal() => return Followed::Ended,
                Ok(Run { error: Some(error), .. }) if error.kind == ErrorKind::Divergence => {
                    return Followed::Diverged(error.message);
                }
                Ok(_) => {}
                Err(_) => return Followed::StandsStill,
            }
            if !self.time_brings_something().await {
                return Followed::StandsStill;
            }
            self.idle.step().await;
        }
        Followed::TooLong
    }

    /// Whether a run of this env's workflows waits for time.
    async fn time_brings_something(&self) -> bool {
        let mut filter = RunFilter::new()
            .status(RunStatus::Pending)
            .status(RunStatus::Running)
            .status(RunStatus::Parked)
            .page_size(1000);
        loop {
            let Ok(runs) = self.client.list(&filter).await else { return false };
            let waits = |run: &Run| {
                let served = self.surroundings.serves(&run.lane.workflow, &run.lane.version);
                let timed = run.status == RunStatus::Running || run.available_at < Timestamp::FAR_FUTURE;
                served && timed && run.paused_at.is_none()
            };
            if runs.iter().any(waits) {
                return true;
            }
            match runs.last() {
                Some(last) => filter = filter.after(last.id),
                None => return false,
            }
        }
    }

    /// Whether the run ends without the passing of time. A body that waits for another thread gets some real time.
    pub(super) async fn ends_now(&self, id: RunId) -> bool {
        let begun = std::time::Instant::now();
        loop {
            self.settle().await;
            match self.client.run(id).await {
                Ok(run) if run.status.is_terminal() => return true,
                Ok(run) if run.status == RunStatus::Running && begun.elapsed() < PATIENCE => {}
                Ok(_) | Err(_) => return false,
            }
            // A blocking call, for the clock of this thread stands still.
            let _ = tokio::task::spawn_blocking(|| std::thread::sleep(LOOK)).await;
        }
    }

    fn let_time_pass(&self) {
        self.surroundings.ledger.time_passes(true);
        drop(self.hold.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn hold_time(&self) {
        self.surroundings.ledger.time_passes(false);
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(Hold::begin());
    }
}

/// What the dead worker held is due now: in production others notice within a second, here at once.
async fn release_dead(client: &Client) -> Result<(), WorkerError> {
    let store = client.store();
    let workers = store.workers().await?;
    let dead: Vec<WorkerId> = workers.into_iter().filter(|worker| !worker.live).map(|worker| worker.id).collect();
    if dead.is_empty() {
        return Ok(());
    }
    let mut session = store.open_lease(WorkerId::generate(), &[]).await?;
    for worker in dead {
        session.release_worker(worker).await?;
    }
    session.close().await?;
    Ok(())
}

/// What is to be done in a process.
pub(super) type Call = Box<dyn FnOnce(Arc<Process>) -> BoxFuture<'static, ()> + Send>;
