mod exit;
mod finish;
mod port;
mod transaction;
mod wait;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;
use workflow_engine::executor::PendingOutcome;
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::replay::{HistorySize, Interruption, Next, OutboxRow};
use workflow_engine::runtime::{Polled, Poller, RunCell, RunSettings};
use workflow_engine::store::{AttemptWrite, ClaimedRun, Write};
use workflow_sdk::{ErrorKind, StepAttempt, StoredError, Timestamp, UnreadablePayload};

use self::exit::{after_drive, before_drive};
use self::finish::{finish, report};
use self::port::DrivePort;
use self::transaction::Commits;
use crate::ForeignAwait;
use crate::claim_state::Directive;
use crate::claims::ClaimGuard;
use crate::saturation::SaturationWatch;
use crate::shared::{Shared, Slot};

pub(crate) use self::exit::{Exit, unreadable};

/// Runs one claimed run until it ends, parks or is lost, and writes which.
///
/// What is boxed here and below keeps the future, of which a worker has one for each of its runs, within what an allocator has at
/// hand (a kilobyte in glibc).
pub(crate) async fn drive(shared: Arc<Shared>, run: Box<ClaimedRun>, claim: ClaimGuard, slot: Slot) {
    let end = before_drive(&run, shared.clock.now(), shared.options.max_crashes).map(Box::new);
    if let Some(end) = end {
        return finish(&shared, end, slot).await;
    }
    let (exit, has_children) = match shared.quarantine.admit(&run) {
        Some(_on_trial) => to_exit(&shared, &run, claim).await,
        None => (Exit::QuarantineFull, false),
    };
    report(&run, &exit);
    let end = after_drive(&run, exit, has_children, shared.clock.now()).map(Box::new);
    if let Some(end) = end {
        finish(&shared, end, slot).await;
    }
}

/// How the drive ended, and whether the run may have children.
async fn to_exit(shared: &Shared, run: &ClaimedRun, claim: ClaimGuard) -> (Exit, bool) {
    let mut drive = match Drive::begin(shared, run, claim).await {
        Ok(drive) => Box::new(drive),
        Err(exit) => return (exit, false),
    };
    let exit = drive.go().await.unwrap_or_else(|exit| exit);
    drive.drop_future();
    let exit = drive.or_retry(exit).await.unwrap_or_else(|exit| exit);
    (exit, drive.cell.has_children())
}

pub(crate) struct Drive<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) run: &'a ClaimedRun,
    pub(crate) claim: ClaimGuard,
    pub(crate) saturation: SaturationWatch,
    port: Arc<DrivePort>,
    pub(crate) cell: Arc<RunCell>,
    poller: Option<Poller>,
    pub(crate) pending: VecDeque<PendingOutcome>,
    pub(crate) commits: Commits,
    /// Whether something moved that the workflow has not been polled for.
    pub(crate) stale: bool,
    /// Since when nothing moved.
    pub(crate) quiet_since: Instant,
    /// The run's `wakes` when it was last looked at.
    pub(crate) wakes: i64,
    /// How often it was told that something happened outside.
    pub(crate) told: u64,
    /// Whether the size of the history was warned of.
    warned: bool,
}

impl<'a> Drive<'a> {
    async fn begin(shared: &'a Shared, run: &'a ClaimedRun, claim: ClaimGuard) -> Result<Self, Exit> {
        let history = load_history(shared, run).await?;
        let port = Arc::new(DrivePort {
            clock: Arc::clone(&shared.clock),
            state: Arc::clone(claim.state()),
            ends_at: AtomicI64::new(run.deadline_at.map_or(i64::MAX, Timestamp::as_micros)),
            client: shared.client.clone(),
            claim: run.claim,
            claims: Arc::clone(&shared.claims),
            circuits: Arc::clone(&shared.circuits),
            watch: shared.watch.clone(),
        });
        let settings = RunSettings {
            run_id: run.claim.run_id,
            epoch: run.claim.epoch,
            generation: run.generation,
            depth: run.depth,
            queue: run.lane.queue.clone(),
            attempt: u32::try_from(run.attempt).unwrap_or(u32::MAX),
            started_at: run.started_at,
            payload_limit: shared.client.payload_limit(),
        };
        let cell = RunCell::new(settings, history, Arc::<DrivePort>::clone(&port));
        let entry = shared.registry.entry(&run.lane).ok_or(Exit::Released)?;
        let future = entry.call(Arc::clone(&cell), run.input.clone());
        Ok(Self {
            poller: Some(Poller::new(future, Arc::<DrivePort>::clone(&port))),
            port,
            saturation: shared.saturation.watch(),
            pending: VecDeque::new(),
            commits: Commits::default(),
            stale: true,
            quiet_since: Instant::now(),
            wakes: run.wakes,
            told: 0,
            warned: false,
            shared,
            run,
            claim,
            cell,
        })
    }

    /// Polls, delivers, writes and waits until the run can go on no more. `Err` is an exit found on the way.
    async fn go(&mut self) -> Result<Exit, Exit> {
        let mut checked = false;
        loop {
            // Once before each poll, and once after each wait.
            if !checked {
                self.check_claim()?;
                checked = true;
                // Before the poll: also a run that cannot go on with this code is told to end, and its grace begins.
                self.send_records().await?;
            }
            if std::mem::take(&mut self.stale) {
                checked = false;
                if let Some(end) = self.poll() {
                    return self.conclude(end).await;
                }
                if let Some(divergence) = self.cell.divergence() {
                    return Ok(self.diverged(divergence));
                }
                self.check_size()?;
            }
            self.send_records().await?;
            match self.waking(|cell| cell.next()) {
                Next::Deliver(_) | Next::Start(_) | Next::Interrupt(_) => self.stale = true,
                Next::Send => {}
                Next::Wait { timer, park_until } => {
                    checked = false;
                    if !self.look_outside().await? {
                        self.wait(timer, park_until).await?;
                    }
                }
            }
        }
    }

    /// Whether the run may go on, and whether bodies may begin: not on a claim whose lease may have run out.
    fn check_claim(&mut self) -> Result<(), Exit> {
        let snapshot = self.claim.state().snapshot();
        match snapshot.directive {
            Directive::Continue | Directive::Drain => {}
            Directive::Abandon => return Err(Exit::Released),
            Directive::Lost => return Err(Exit::Lost),
        }
        let now = Instant::now();
        self.interrupt(snapshot.cancel_requested, self.shared.clock.at(now))?;
        self.hear(snapshot.wake_seq);
        let is_held = snapshot.directive == Directive::Drain || !snapshot.is_valid_at(now);
        self.stale |= self.waking(|cell| cell.hold(is_held));
        Ok(())
    }

    /// Tells the run to end if it is to, and ends it if it has had its grace.
    fn interrupt(&mut self, cancel_requested: bool, now: Timestamp) -> Result<(), Exit> {
        if self.run.cancel_requested || cancel_requested {
            self.cell.interrupt(Interruption::Canceled);
        } else if self.run.deadline_at.is_some_and(|deadline| deadline <= now) {
            self.cell.interrupt(Interruption::Deadline);
        }
        let Some((by, grace_ends_at)) = self.grace() else { return Ok(()) };
        self.port.ends_at.store(grace_ends_at.as_micros(), Ordering::Relaxed);
        if now < grace_ends_at { Ok(()) } else { Err(Exit::GraceOver(by)) }
    }

    /// What told the run to end, if anything has, and when it must have ended.
    pub(crate) fn grace(&self) -> Option<(Interruption, Timestamp)> {
        self.cell.interrupted().map(|it| (it.by, it.at + self.shared.options.cancel_grace))
    }

    fn poll(&mut self) -> Option<Exit> {
        self.quiet_since = Instant::now();
        match self.poller.as_mut()?.poll() {
            Polled::Pending => None,
            Polled::Ended(result) => Some(self.ended(result)),
            Polled::Continued(input) => Some(Exit::Continued(input)),
        }
    }

    /// Whether the history is small enough to go on.
    fn check_size(&mut self) -> Result<(), Exit> {
        let size = self.cell.history_size();
        let options = &self.shared.options;
        if let Some(error) = options.exceeded_by(size) {
            return Err(Exit::Ended(Err(error), None));
        }
        if !self.warned && options.warns_of(size) {
            self.warned = true;
            let HistorySize { steps, bytes } = size;
            let workflow = &self.run.lane.workflow;
            tracing::warn!(
                run_id = %self.run.claim.run_id,
                workflow,
                steps,
                bytes,
                "the run's history grows large, and every replay reads all of it: use ctx.continue_as_new"
            );
        }
        Ok(())
    }

    /// Wakes calls so that it does not count as a foreign wake.
    pub(crate) fn waking<R>(&self, wake: impl FnOnce(&RunCell) -> R) -> R {
        match &self.poller {
            Some(poller) => poller.waking(|| wake(&self.cell)),
            None => wake(&self.cell),
        }
    }

    pub(crate) async fn send_records(&mut self) -> Result<(), Exit> {
        if !self.cell.has_records() {
            return Ok(());
        }
        let mut records = self.cell.take_outbox().into_iter();
        while !records.as_slice().is_empty() {
            let permit = self.shared.executor().reserve().await.map_err(|_| Exit::Lost)?;
            let Some(OutboxRow { row, effect, .. }) = records.next() else { break };
            if row.position.is_some() {
                failpoint("record.before_commit");
            }
            self.pending.push_back(permit.send(Write::Attempt(AttemptWrite { claim: self.run.claim, row, effect })));
        }
        for commit in self.cell.take_commits() {
            self.commits.begin(Arc::clone(self.shared.client.store()), self.run.claim, commit);
        }
        Ok(())
    }

    /// After a wake-up: bodies or the workflow were woken, or the state of the claim has changed.
    pub(crate) fn look(&mut self) -> Result<(), Exit> {
        let foreign = self.poller.as_ref().is_some_and(Poller::take_foreign_wake);
        let bodies = self.waking(RunCell::wake_bodies);
        self.stale |= bodies || foreign;
        if foreign { self.foreign_await() } else { Ok(()) }
    }

    fn foreign_await(&self) -> Result<(), Exit> {
        let workflow = &self.run.lane.workflow;
        let message = format!(
            "workflow {workflow:?} awaited something that is not durable, outside of its steps; \
             after a crash it may go another way: put it into a step, or use ctx.sleep"
        );
        match self.shared.options.foreign_await {
            ForeignAwait::Fail => Err(self.ended(Err(StoredError::new(ErrorKind::Refused, message).fatal()))),
            ForeignAwait::Warn => {
                if self.shared.first_warning(workflow) {
                    tracing::warn!(run_id = %self.run.claim.run_id, "{message}");
                }
                Ok(())
            }
        }
    }

    /// Drops the workflow and its bodies. A panic in a destructor is the author's, and must not end the worker.
    fn drop_future(&mut self) {
        let poller = self.poller.take();
        let cell = &self.cell;
        let drop_all = || {
            drop(poller);
            cell.drop_compensations();
        };
        if catch_unwind(AssertUnwindSafe(drop_all)).is_err() {
            tracing::warn!(run_id = %self.run.claim.run_id, "a destructor in the workflow panicked");
        }
    }
}

async fn load_history(shared: &Shared, run: &ClaimedRun) -> Result<Vec<StepAttempt>, Exit> {
    if let Some(unreadable) = UnreadablePayload::in_place_of(&run.input) {
        return Err(Exit::Unreadable(unreadable.into()));
    }
    // The first claim of a run is the first that can write; a fork that has a history begins with epoch 1.
    if run.claim.epoch == 1 {
        return Ok(Vec::new());
    }
    failpoint_error("drive.before_history").map_err(|fault| Exit::Unreadable(fault.into()))?;
    shared.client.store().history(run.claim.run_id).await.map_err(Exit::Unreadable)
}
