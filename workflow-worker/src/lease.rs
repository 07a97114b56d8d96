//! The thread that renews the claims of a worker and looks for dead workers.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};
use workflow_engine::executor::Notifier;
use workflow_engine::faults::{failpoint, failpoint_error, planted};
use workflow_engine::model::{Claim, Lane, Retention, WorkerId};
use workflow_engine::observe::{Event, Observers};
use workflow_engine::store::{LeaseSession, Renewed, Store, WorkerLook};
use workflow_sdk::DatabaseError;

use crate::claim_state::Directive;
use crate::claims::ClaimTable;
use crate::pulse::{AwakeClock, Pulse};
use crate::shared::Shared;
use crate::{LapsedLease, WorkerError, WorkerOptions};

/// How often a worker that is no watcher looks for liveness locks that no process holds. So the
/// death of all watchers is found, and a worker that was alone learns of a second one.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

/// The time between the two looks of a worker that starts. A lock that is free twice in a row
/// belongs to a dead process, because a living one whose connections break takes a lock again
/// sooner.
const START_CONFIRMATION: Duration = Duration::from_millis(500);

/// How often a watcher looks (see [`WorkerLook::is_watcher`]).
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The time between the two looks by which a watcher takes another worker for dead. A living one
/// whose connections were all cut has this time to take a lock again.
const CONFIRMATION: Duration = Duration::from_millis(60);

/// How often a lease is renewed while it lasts.
const RENEWALS_PER_LEASE: u32 = 3;

/// If one poll of a workflow lasts this many leases, the lease of its run is not renewed any more.
/// If the runtime polls nothing for that long, no lease is renewed.
const LEASES_WITHOUT_ANSWER: u32 = 3;

/// How often a worker looks for free locks on a store in this process. There the end of a lease is
/// enough, and on a paused clock years pass in a moment.
const RARE_LIVENESS_INTERVAL: Duration = WorkerOptions::LONGEST_TIME;

/// Renews a worker's claims. It is an OS thread with a runtime and a connection of its own, so that
/// neither a blocking step nor a busy pool can starve it. On a store in this process it is a task
/// on the caller's runtime instead.
#[derive(Debug)]
pub(crate) struct LeaseThread {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
    /// `None` if it is a task on the caller's runtime.
    thread: Option<JoinHandle<()>>,
}

impl LeaseThread {
    pub(crate) async fn start(shared: &Shared) -> Result<Self, WorkerError> {
        let (stop, stopping) = watch::channel(false);
        let (opened_sender, opened) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let keeper = LeaseKeeper {
            worker: shared.id,
            lanes: shared.lanes.clone(),
            retention: shared.retention.clone(),
            store: Arc::clone(shared.client.store()),
            notifier: Arc::clone(shared.executor().notifier()),
            observers: shared.client.observers().clone(),
            claims: Arc::clone(&shared.claims),
            lease: shared.options.lease,
            liveness: shared.pace(LIVENESS_INTERVAL, RARE_LIVENESS_INTERVAL),
            in_process: shared.client.store().in_process(),
            lapsed_lease: shared.options.lapsed_lease,
            awake: shared.awake.clone(),
            renewed_at: Instant::now(),
            pulse: Arc::clone(&shared.pulse),
            has_warned_of_runtime: false,
            warned: HashSet::new(),
            unlocked: Vec::new(),
        };
        let thread = if keeper.in_process {
            tokio::spawn(async move {
                keeper.run(stopping, opened_sender).await;
                let _ = ended_sender.send(());
            });
            None
        } else {
            Some(on_a_thread(keeper, stopping, opened_sender, ended_sender)?)
        };
        match opened.await {
            Ok(opened) => opened?,
            Err(_) => return Err(WorkerError::LeaseThread { reason: "it ended before it began".into() }),
        }
        Ok(Self { stop, ended, thread })
    }

    /// Returns when the thread has ended by itself. That is a fault, so the worker has to stop.
    pub(crate) async fn died(&mut self) -> WorkerError {
        let _ = (&mut self.ended).await;
        WorkerError::LeaseThread { reason: "it ended by itself".into() }
    }

    /// Gives the liveness lock back, and ends the thread.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if !self.ended.is_terminated() {
            let _ = self.ended.await;
        }
        if self.thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the lease thread panicked");
        }
    }
}

type Opened = oneshot::Sender<Result<(), WorkerError>>;

fn on_a_thread(
    keeper: LeaseKeeper,
    stopping: watch::Receiver<bool>,
    opened: Opened,
    ended: oneshot::Sender<()>,
) -> Result<JoinHandle<()>, WorkerError> {
    let thread = std::thread::Builder::new().name("workflow-lease".into()).spawn(move || {
        run_keeper(keeper, stopping, opened);
        let _ = ended.send(());
    });
    thread.map_err(|error| WorkerError::LeaseThread { reason: error.to_string() })
}

fn run_keeper(keeper: LeaseKeeper, stopping: watch::Receiver<bool>, opened: Opened) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(WorkerError::LeaseThread { reason: error.to_string() }));
            return;
        }
    };
    runtime.block_on(keeper.run(stopping, opened));
}

struct LeaseKeeper {
    worker: WorkerId,
    lanes: Vec<Lane>,
    retention: Retention,
    store: Arc<dyn Store>,
    notifier: Arc<Notifier>,
    observers: Observers,
    claims: Arc<ClaimTable>,
    lease: Duration,
    /// The interval between two looks for free liveness locks, of a worker that is no watcher.
    liveness: Duration,
    /// The store is in this process.
    in_process: bool,
    lapsed_lease: LapsedLease,
    awake: AwakeClock,
    /// The last tick that advanced the clock.
    renewed_at: Instant,
    /// Beats as long as the worker's runtime polls its tasks.
    pulse: Arc<Pulse>,
    /// The log has a line about the present silence of the runtime.
    has_warned_of_runtime: bool,
    /// The claims whose long polls are in the log.
    warned: HashSet<Claim>,
    /// The workers whose lock was free at the last look.
    unlocked: Vec<WorkerId>,
}

impl LeaseKeeper {
    async fn run(mut self, stopping: watch::Receiver<bool>, opened: Opened) {
        match self.store.open_lease(self.worker, &self.lanes, &self.retention).await {
            Ok(mut session) => {
                failpoint("lease.after_open");
                let pause = self.release_at_start(session.as_mut()).await;
                let _ = opened.send(Ok(()));
                self.keep(session, pause, stopping).await;
            }
            Err(error) => {
                let _ = opened.send(Err(error.into()));
            }
        }
    }

    /// Renews and looks, the first time after this pause, until it is told to stop.
    async fn keep(mut self, mut session: Box<dyn LeaseSession>, pause: Duration, mut stopping: watch::Receiver<bool>) {
        let mut renewal = interval(self.lease / RENEWALS_PER_LEASE);
        let mut look_at = Instant::now() + pause;
        let lapse = give_up_lapsed(Arc::clone(&self.claims), self.lease / 6);
        let drops_bodies = !self.in_process && self.lapsed_lease == LapsedLease::DropBodies;
        let keep = async {
            loop {
                tokio::select! {
                    biased;
                    () = told_to_stop(&mut stopping) => break,
                    _ = renewal.tick() => self.renew(session.as_mut()).await,
                    () = tokio::time::sleep_until(look_at) => {
                        let pause = self.release_dead_workers(session.as_mut()).await;
                        look_at = Instant::now() + pause;
                    }
                }
            }
        };
        // Beside the renewals, which may hang for longer than a lease.
        tokio::select! {
            biased;
            () = keep => {}
            () = lapse, if drops_bodies => {}
        }
        if let Err(error) = session.close().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "liveness lock not given back; it ends with the process"
            );
        }
    }

    async fn renew(&mut self, session: &mut dyn LeaseSession) {
        let claims = self.answering();
        if claims.is_empty() {
            return;
        }
        // The lease counts from before the request was sent, because the answer may take long.
        let valid_until = Instant::now() + self.lease;
        match try_renew(session, &claims, self.lease).await {
            Ok(renewed) => self.take_renewals(&claims, &renewed, valid_until),
            // The claims may still hold. The drives go on until their leases may have run out, and
            // then begin no more bodies.
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    claims = claims.len(),
                    "leases not renewed, trying again"
                );
            }
        }
    }

    /// Returns the claims whose leases are renewed: those of runs that are not stuck in a poll.
    /// Warns of the others.
    fn answering(&mut self) -> Vec<Claim> {
        let mut claims = self.claims.all();
        if self.in_process {
            return claims;
        }
        let now = Instant::now();
        self.awake.advance(now - self.renewed_at, self.lease / RENEWALS_PER_LEASE * 2);
        self.renewed_at = now;
        let longest = self.lease * LEASES_WITHOUT_ANSWER;
        let is_silent = !claims.is_empty() && self.pulse.age().is_some_and(|age| age > longest);
        if is_silent && !self.has_warned_of_runtime {
            tracing::error!(claims = claims.len(), "the worker's runtime has stopped to poll; no lease is renewed");
        }
        self.has_warned_of_runtime = is_silent;
        if is_silent {
            return Vec::new();
        }
        let stuck = self.claims.polled_longer_than(self.lease);
        self.warned.retain(|claim| stuck.iter().any(|(other, _)| other == claim));
        for (claim, time) in stuck {
            if self.warned.insert(claim) {
                let (run_id, seconds) = (claim.run_id, time.as_secs());
                tracing::warn!(
                    %run_id,
                    seconds,
                    "a workflow or a step runs without an await and blocks its thread; its run loses its lease soon: \
                     use tokio::task::spawn_blocking, or an await in the loop"
                );
            }
            if time > longest && !planted("renewed-hang") {
                claims.retain(|other| *other != claim);
            }
        }
        claims
    }

    fn take_renewals(&self, claims: &[Claim], renewed: &[Renewed], valid_until: Instant) {
        for Renewed { claim, cancel_requested, paused, wakes, is_extended } in renewed {
            self.claims.update_wakes(claim.run_id, *wakes);
            if *is_extended {
                self.claims.renew(*claim, valid_until);
            }
            if *paused {
                self.claims.direct(*claim, Directive::Drain);
            }
            if *cancel_requested {
                self.claims.request_cancel(*claim);
            }
        }
        let kept: HashSet<Claim> = renewed.iter().map(|renewed| renewed.claim).collect();
        for lost in claims.iter().filter(|claim| !kept.contains(claim)) {
            self.claims.direct(*lost, Directive::Lost);
        }
    }

    /// Releases the claims of dead workers before this one claims: a claim of a run whose lease has
    /// ended counts no crash. Returns the time until the next look.
    async fn release_at_start(&mut self, session: &mut dyn LeaseSession) -> Duration {
        let pause = self.release_dead_workers(session).await;
        if self.unlocked.is_empty() {
            return pause;
        }
        if !self.in_process {
            tokio::time::sleep(START_CONFIRMATION).await;
        }
        self.release_dead_workers(session).await
    }

    /// Releases the claims of workers whose lock was free at the last look and still is. Returns
    /// the time until the next look.
    async fn release_dead_workers(&mut self, session: &mut dyn LeaseSession) -> Duration {
        let WorkerLook { unlocked, is_watcher } = match session.look().await {
            Ok(look) => look,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for dead workers, trying again");
                return self.liveness;
            }
        };
        let before = std::mem::replace(&mut self.unlocked, unlocked);
        let mut pause = match is_watcher {
            true if self.unlocked.iter().any(|worker| !before.contains(worker)) => CONFIRMATION,
            true => WATCH_INTERVAL,
            false => self.liveness,
        };
        for worker in self.unlocked.iter().copied().filter(|worker| before.contains(worker)) {
            match try_release(session, worker).await {
                Ok(claims) => {
                    self.observers.event(&Event::WorkerDied { worker, claims });
                    self.notifier.notify_due();
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, %worker, "claims of a dead worker not released");
                    pause = self.liveness;
                }
            }
        }
        pause
    }
}

/// Gives up the runs whose leases may have ended, until the future is dropped.
async fn give_up_lapsed(claims: Arc<ClaimTable>, period: Duration) {
    let mut ticks = interval(period);
    loop {
        ticks.tick().await;
        let runs = claims.give_up_lapsed();
        if runs > 0 {
            tracing::warn!(runs, "leases were not renewed in time; their runs are given up, and their bodies dropped");
        }
    }
}

/// Beats while the worker's runtime polls its tasks, until the future is dropped. On a store in
/// this process nothing looks at the beats.
pub(crate) async fn beat(shared: Arc<Shared>) {
    let mut ticks = interval(shared.options.lease / 6);
    loop {
        ticks.tick().await;
        shared.pulse.beat();
    }
}

async fn try_renew(
    session: &mut dyn LeaseSession,
    claims: &[Claim],
    lease: Duration,
) -> Result<Vec<Renewed>, DatabaseError> {
    failpoint_error("lease.before_renew")?;
    let renewed = session.renew(claims, lease).await?;
    failpoint_error("lease.after_renew")?;
    Ok(renewed)
}

async fn try_release(session: &mut dyn LeaseSession, worker: WorkerId) -> Result<u64, DatabaseError> {
    failpoint_error("lease.before_release")?;
    let claims = session.release_worker(worker).await?;
    failpoint_error("lease.after_release")?;
    Ok(claims)
}

async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An error says that the worker was dropped.
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    // After a pause of the process (SIGSTOP, suspend) one tick is enough.
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
