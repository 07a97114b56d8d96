//! One process of an env: a client, and a worker unless a test has crashed it, on the paused
//! runtime of the env's thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use workflow_engine::model::{Retention, WorkerId};
use workflow_sdk::{
    Client, DEFAULT_PAYLOAD_LIMIT, ErrorKind, Lane, Run, RunFilter, RunId, RunStatus, RunSummary, Timestamp,
};

use workflow_worker::WorkerError;

use super::crash_store::CrashStore;
use super::idle::{Idle, TimeStop};
use super::surroundings::Surroundings;

/// A run that has not ended after this number of time steps counts as endless.
const MOST_STEPS: u32 = 200_000;

/// The real time that a body gets which waits for another thread while nothing else can go on.
const PATIENCE: Duration = Duration::from_secs(2);

/// The real time between two looks at that run.
const LOOK: Duration = Duration::from_millis(5);

/// How far a run has come that was followed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Followed {
    Ended,
    /// It waits for something that does not come with time.
    StandsStill,
    /// Its history does not fit the code.
    Diverged(String),
    /// It does not come to an end.
    TooLong,
}

/// One process of an env.
pub(super) struct Process {
    pub(super) client: Client,
    surroundings: Arc<Surroundings>,
    idle: Arc<Idle>,
    time_stop: Mutex<Option<TimeStop>>,
}

impl Process {
    /// Begins a process. Time stands still.
    pub(super) fn begin(surroundings: &Arc<Surroundings>, idle: &Arc<Idle>) -> Arc<Self> {
        let store = CrashStore { inner: surroundings.database.handle(), log: Arc::clone(&surroundings.log) };
        let client = Client::over(Arc::new(store), DEFAULT_PAYLOAD_LIMIT);
        let time_stop = Mutex::new(Some(TimeStop::begin()));
        Arc::new(Self { client, surroundings: Arc::clone(surroundings), idle: Arc::clone(idle), time_stop })
    }

    /// Starts a worker, which first releases the claims of the dead one.
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

    /// Lets this much time pass. Everything that becomes due meanwhile happens in its order.
    pub(super) async fn advance(&self, by: Duration) {
        let until = Instant::now() + by;
        self.settle().await;
        self.let_time_pass();
        tokio::time::sleep_until(until).await;
        self.stop_time();
        self.settle().await;
    }

    /// Lets as much time pass as the run needs to end.
    pub(super) async fn follow(&self, run: RunId) -> Followed {
        self.settle().await;
        self.let_time_pass();
        let followed = self.follow_while_time_passes(run).await;
        self.stop_time();
        followed
    }

    async fn follow_while_time_passes(&self, id: RunId) -> Followed {
        let Ok(workers) = self.client.store().workers().await else { return Followed::StandsStill };
        let served: Vec<Lane> =
            workers.into_iter().filter(|worker| worker.live).flat_map(|worker| worker.lanes).collect();
        for _ in 0..MOST_STEPS {
            let run = match self.client.run(id).await {
                Ok(run) if run.status.is_terminal() => return Followed::Ended,
                Ok(Run { error: Some(error), .. }) if error.kind == ErrorKind::Divergence => {
                    return Followed::Diverged(error.message);
                }
                Ok(run) => run,
                Err(_) => return Followed::StandsStill,
            };
            // Mostly the run itself waits for time, and the others need not be listed.
            let waits = run.paused_at.is_none() && waits_for_time(&served, &run.lane, run.status, run.available_at);
            if !waits && !self.some_run_waits_for_time(&served).await {
                return Followed::StandsStill;
            }
            self.idle.step().await;
        }
        Followed::TooLong
    }

    /// Returns whether any run of these lanes waits for time.
    async fn some_run_waits_for_time(&self, served: &[Lane]) -> bool {
        let mut filter = RunFilter::new()
            .status(RunStatus::Pending)
            .status(RunStatus::Running)
            .status(RunStatus::Parked)
            .page_size(1000);
        loop {
            let Ok(runs) = self.client.list(&filter).await else { return false };
            let waits = |run: &RunSummary| {
                run.paused_at.is_none() && waits_for_time(served, &run.lane, run.status, run.available_at)
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

    /// Returns whether the run ends without the passing of virtual time. A body that waits for
    /// another thread gets some real time.
    pub(super) async fn ends_now(&self, id: RunId) -> bool {
        let begun = std::time::Instant::now();
        loop {
            self.settle().await;
            match self.client.run(id).await {
                Ok(run) if run.status.is_terminal() => return true,
                Ok(run) if run.status == RunStatus::Running && begun.elapsed() < PATIENCE => {}
                Ok(_) | Err(_) => return false,
            }
            // On a blocking thread, because the clock of this runtime stands still.
            let _ = tokio::task::spawn_blocking(|| std::thread::sleep(LOOK)).await;
        }
    }

    fn let_time_pass(&self) {
        self.surroundings.ledger.set_time_passes(true);
        drop(self.time_stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn stop_time(&self) {
        self.surroundings.ledger.set_time_passes(false);
        *self.time_stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(TimeStop::begin());
    }
}

/// Returns whether a run that is not paused waits for time, if a worker serves these lanes.
fn waits_for_time(served: &[Lane], lane: &Lane, status: RunStatus, available_at: Timestamp) -> bool {
    served.contains(lane) && (status == RunStatus::Running || available_at < Timestamp::FAR_FUTURE)
}

/// Makes the runs of dead workers due at once. In production another worker does so about a second
/// after the death.
async fn release_dead(client: &Client) -> Result<(), WorkerError> {
    let store = client.store();
    let workers = store.workers().await?;
    let dead: Vec<WorkerId> = workers.into_iter().filter(|worker| !worker.live).map(|worker| worker.id).collect();
    if dead.is_empty() {
        return Ok(());
    }
    let mut session = store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    for worker in dead {
        session.release_worker(worker).await?;
    }
    session.close().await?;
    Ok(())
}

/// A call that a test makes in a process.
pub(super) type Call = Box<dyn FnOnce(Arc<Process>) -> BoxFuture<'static, ()> + Send>;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use workflow_sdk::RunsWith;
    use workflow_sdk::prelude::*;

    use super::*;
    use crate::commit_log::CommitLog;
    use crate::env_config::EnvConfig;

    /// The largest number of times per year at which a worker looks at something without a reason.
    /// One look per week would be more.
    const LOOKS_PER_YEAR: usize = 50;

    #[workflow]
    async fn hibernate(ctx: &Ctx, time: Duration) -> Result<()> {
        ctx.sleep(time).await
    }

    fn register<W: RunsWith<()>>(config: &mut EnvConfig<()>, _: W) {
        config.register::<W>();
    }

    /// Returns the number of steps of time in which a run of this duration ends, and the number of
    /// commits.
    async fn cost(time: Duration) -> (usize, usize) {
        let mut config = EnvConfig {
            state: Box::new(|| ()),
            registered: Vec::new(),
            workflows: Vec::new(),
            start: Timestamp::from_micros(1_798_761_600_000_000),
            configure: None,
            ids: AtomicU64::new(0),
        };
        register(&mut config, hibernate);
        let (thread, _) = Arc::new(config).start_thread(CommitLog::default(), None).unwrap();
        let stepping = thread.call(move |process| async move {
            process.settle().await;
            let run = process.client.start(hibernate, time).await.unwrap().id();
            process.settle().await;
            process.let_time_pass();
            let mut steps = 0;
            while !process.client.run(run).await.unwrap().status.is_terminal() && steps < MOST_STEPS as usize {
                process.idle.step().await;
                steps += 1;
            }
            process.stop_time();
            steps
        });
        (stepping.await.unwrap(), thread.surroundings.log.commits().len())
    }

    #[tokio::test]
    async fn a_sleep_of_ten_years_costs_what_one_of_a_minute_does() {
        let minute = cost(Duration::from_secs(60)).await;
        let years = cost(Duration::from_secs(10 * 365 * 24 * 3600)).await;
        println!("steps and commits: {minute:?} in a minute, {years:?} in ten years");
        assert!(minute.0 > 0 && minute.1 > 0, "{minute:?}");
        let most = 10 * LOOKS_PER_YEAR;
        assert!(years.0 <= minute.0 + most && years.1 <= minute.1 + most, "{minute:?}, {years:?}");
    }
}
