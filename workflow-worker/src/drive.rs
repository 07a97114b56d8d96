use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use workflow_sdk::engine::{
    AttemptWrite, ClaimedRun, EndWrite, Executor, NewSignal, Next, OutboxRow, Outcome, PendingOutcome, Polled, Poller,
    Port, PortFuture, RunCell, RunSettings, Write, failpoint,
};
use workflow_sdk::{BackendErrorKind, ErrorKind, SignalOutcome, StepAttempt, StoredError, Timestamp};

use crate::ForeignAwait;
use crate::clock::DatabaseClock;
use crate::held::{HeldClaim, Order, Standing};
use crate::shared::Shared;
use crate::verdict::{Exit, after_drive, before_drive};

/// Before what a run waits for is looked for again, when the database did not answer.
const LOOK_AGAIN_DELAY: Duration = Duration::from_secs(1);

/// Runs one claimed run until it ends, parks or is lost, and writes which.
pub(crate) async fn drive(shared: Arc<Shared>, run: ClaimedRun, claim: HeldClaim) {
    if let Some(end) = before_drive(&run, shared.clock.now(), shared.options.max_crashes) {
        // Only what ran before can have started children.
        let has_children = run.claim.epoch > 1;
        let parent_run_id = run.parent_run_id;
        finish(&shared, Some(Write::End(EndWrite { claim: run.claim, parent_run_id, has_children, end }))).await;
        return;
    }
    let (exit, has_children) = match shared.suspicion.admit(&run) {
        Some(_on_trial) => to_exit(&shared, &run, claim).await,
        None => (Exit::Suspected, false),
    };
    report(&run, &exit);
    finish(&shared, after_drive(&run, exit, has_children, shared.clock.now())).await;
}

/// How the drive ended, and whether the run may have children.
async fn to_exit(shared: &Shared, run: &ClaimedRun, claim: HeldClaim) -> (Exit, bool) {
    match Drive::begin(shared, run, claim).await {
        Ok(mut drive) => {
            let exit = drive.go().await.unwrap_or_else(|exit| exit);
            drive.drop_future();
            (exit, drive.cell.has_children())
        }
        Err(exit) => (exit, false),
    }
}

async fn finish(shared: &Shared, write: Option<Write>) {
    let Some(write) = write else { return };
    let parks = matches!(write, Write::Park(_));
    failpoint(if parks { "park.before_commit" } else { "end.before_commit" });
    // A lost claim's run has another owner; a stopped executor ends the worker.
    if let Ok(Outcome::Refused(error)) = shared.executor().commit(write).await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the end of a run was not written; it is taken up again when its lease ends"
        );
    }
    failpoint(if parks { "park.after_commit" } else { "end.after_commit" });
}

fn report(run: &ClaimedRun, exit: &Exit) {
    let run_id = run.claim.run_id;
    let workflow = &run.lane.workflow;
    match exit {
        Exit::Ended(Ok(_)) => tracing::debug!(%run_id, workflow, "run succeeded"),
        Exit::Ended(Err(error)) => tracing::warn!(%run_id, workflow, kind = %error.kind, "run failed"),
        Exit::Canceled => tracing::info!(%run_id, workflow, "run canceled"),
        Exit::Deadline => tracing::warn!(%run_id, workflow, "run had not ended at its deadline"),
        Exit::Park { until, .. } => tracing::debug!(%run_id, workflow, ?until, "run parked"),
        Exit::Diverged(divergence) => tracing::error!(%run_id, workflow, "run parked: {divergence}"),
        Exit::Unreadable(error) => {
            tracing::error!(%run_id, workflow, error = error as &dyn std::error::Error, "run parked: its history was not read");
        }
        Exit::Released => tracing::debug!(%run_id, workflow, "run given back"),
        Exit::Suspected => {
            tracing::debug!(%run_id, workflow, crashes = run.crashes, "run waits for a trial of another")
        }
        Exit::Lost => tracing::warn!(%run_id, workflow, "claim lost: the run is another worker's now"),
    }
}

pub(crate) struct Drive<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) run: &'a ClaimedRun,
    pub(crate) claim: HeldClaim,
    pressure: watch::Receiver<bool>,
    moved: Arc<Notify>,
    pub(crate) cell: Arc<RunCell>,
    poller: Option<Poller>,
    pending: VecDeque<PendingOutcome>,
    /// Whether something moved that the workflow has not been polled for.
    pub(crate) stale: bool,
    /// Since when nothing moved.
    quiet_since: Instant,
    /// The run's `wakes` when it was last looked at.
    pub(crate) wakes: i64,
    /// How often it was told that something happened outside.
    pub(crate) told: u64,
}

/// What the calls of one run reach of the worker.
#[derive(Debug)]
struct DrivePort {
    clock: Arc<DatabaseClock>,
    moved: Arc<Notify>,
    standing: watch::Receiver<Standing>,
    deadline_at: Option<Timestamp>,
    executor: Executor,
}

impl Port for DrivePort {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Not on a claim whose lease may have run out, and not after the deadline.
    fn may_begin(&self) -> bool {
        self.standing.borrow().is_valid() && self.deadline_at.is_none_or(|deadline| self.clock.now() < deadline)
    }

    fn signal(&self, signal: NewSignal) -> PortFuture<workflow_sdk::Result<SignalOutcome>> {
        let executor = self.executor.clone();
        Box::pin(async move {
            match executor.commit(Write::Signal(signal)).await? {
                Outcome::Signaled(outcome) => Ok(outcome),
                Outcome::Refused(error) => Err(error.into()),
                other => Err(workflow_sdk::Error::msg(format!("a signal was answered with {other:?}"))),
            }
        })
    }

    fn wake(&self) {
        self.moved.notify_one();
    }
}

impl<'a> Drive<'a> {
    async fn begin(shared: &'a Shared, run: &'a ClaimedRun, claim: HeldClaim) -> Result<Self, Exit> {
        let history = load_history(shared, run).await?;
        let moved = Arc::new(Notify::new());
        let port: Arc<dyn Port> = Arc::new(DrivePort {
            clock: Arc::clone(&shared.clock),
            moved: Arc::clone(&moved),
            standing: claim.standing.clone(),
            deadline_at: run.deadline_at,
            executor: shared.executor().clone(),
        });
        let settings = RunSettings {
            run_id: run.claim.run_id,
            epoch: run.claim.epoch,
            generation: run.generation,
            depth: run.depth,
            queue: run.lane.queue.clone(),
            started_at: run.started_at,
            payload_limit: shared.client.payload_limit(),
        };
        let cell = RunCell::new(settings, history, Arc::clone(&port));
        let entry = shared.registry.entry(&run.lane).ok_or(Exit::Released)?;
        let future = entry.call(Arc::clone(&cell), run.input.clone());
        Ok(Self {
            poller: Some(Poller::new(future, port)),
            pressure: shared.pressure.watch(),
            pending: VecDeque::new(),
            stale: true,
            quiet_since: Instant::now(),
            wakes: run.wakes,
            told: 0,
            shared,
            run,
            claim,
            moved,
            cell,
        })
    }

    /// Polls, delivers, writes and waits until the run can go on no more. `Err` is an exit found on the way.
    async fn go(&mut self) -> Result<Exit, Exit> {
        loop {
            self.check_standing()?;
            if let Some(result) = self.poll() {
                return Ok(self.conclude(result));
            }
            if let Some(divergence) = self.cell.divergence() {
                return Ok(Exit::Diverged(divergence));
            }
            self.send_records().await?;
            match self.waking(|cell| cell.next()) {
                Next::Deliver(_) | Next::Start(_) => self.stale = true,
                Next::Send => {}
                Next::Wait { timer, park_until } => {
                    if !self.look_outside().await? {
                        self.wait(timer, park_until).await?;
                    }
                }
            }
        }
    }

    /// Whether the run may go on, and whether bodies may begin: not on a claim whose lease may have run out.
    fn check_standing(&mut self) -> Result<(), Exit> {
        let order = self.claim.order();
        match order {
            Order::Go | Order::Drain => {}
            Order::Abandon => return Err(Exit::Released),
            Order::Cancel => return Err(Exit::Canceled),
            Order::Lost => return Err(Exit::Lost),
        }
        if self.run.deadline_at.is_some_and(|deadline| deadline <= self.shared.clock.now()) {
            return Err(Exit::Deadline);
        }
        self.hear();
        let held = order == Order::Drain || !self.claim.is_valid();
        self.stale |= self.waking(|cell| cell.hold(held));
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<String, StoredError>> {
        if !std::mem::take(&mut self.stale) {
            return None;
        }
        self.quiet_since = Instant::now();
        match self.poller.as_mut()?.poll() {
            Polled::Pending => None,
            Polled::Ended(result) => Some(result),
        }
    }

    /// The function has returned: an answer, unless it passed over a part of its history.
    fn conclude(&self, result: Result<String, StoredError>) -> Exit {
        let Some(divergence) = self.cell.ended() else { return Exit::Ended(result) };
        if let Err(error) = result {
            tracing::warn!(run_id = %self.run.claim.run_id, %error, "the workflow ended before its history did");
        }
        Exit::Diverged(divergence)
    }

    /// Wakes calls so that it does not count as a foreign wake.
    fn waking<R>(&self, wake: impl FnOnce(&RunCell) -> R) -> R {
        match &self.poller {
            Some(poller) => poller.waking(|| wake(&self.cell)),
            None => wake(&self.cell),
        }
    }

    async fn send_records(&mut self) -> Result<(), Exit> {
        for OutboxRow { row, effect, .. } in self.cell.take_outbox() {
            if row.position.is_some() {
                failpoint("record.before_commit");
            }
            let write = Write::Attempt(AttemptWrite { claim: self.run.claim, row, effect });
            self.pending.push_back(send(self.shared.executor(), write).await?);
        }
        Ok(())
    }

    /// Waits for one fact: a commit, a body, a timer, an order.
    async fn wait(&mut self, timer: Option<Timestamp>, park_until: Option<Timestamp>) -> Result<(), Exit> {
        if self.claim.order() == Order::Drain && !self.cell.is_running() && self.pending.is_empty() {
            return Err(Exit::Released);
        }
        if let Some(until) = park_until.filter(|until| self.parks(*until)) {
            return Err(Exit::Park { until, wakes: self.wakes });
        }
        let wake_at = [timer, self.run.deadline_at].into_iter().flatten().min();
        let wake_after = wake_at.map_or(Duration::MAX, |at| self.shared.clock.until(at)).min(self.lingers_for());
        tokio::select! {
            biased;
            outcome = next_outcome(&mut self.pending) => self.take_outcome(outcome)?,
            changed = self.claim.standing.changed() => if changed.is_err() { return Err(Exit::Lost) },
            () = self.moved.notified() => self.look()?,
            () = tokio::time::sleep(wake_after) => self.stale |= self.waking(RunCell::fire_timers),
            _ = self.pressure.changed(), if park_until.is_some() => {}
        }
        Ok(())
    }

    /// Goes on with bodies for a while, though what the run waits for could not be read.
    pub(crate) async fn wait_to_look(&mut self) -> Result<(), Exit> {
        tokio::select! {
            biased;
            outcome = next_outcome(&mut self.pending) => self.take_outcome(outcome)?,
            changed = self.claim.standing.changed() => if changed.is_err() { return Err(Exit::Lost) },
            () = self.moved.notified() => self.look()?,
            () = tokio::time::sleep(LOOK_AGAIN_DELAY) => self.stale |= self.waking(RunCell::fire_timers),
        }
        Ok(())
    }

    /// Whether a wait is to be left to the database.
    fn parks(&mut self, until: Timestamp) -> bool {
        let under_pressure = *self.pressure.borrow_and_update();
        let far = self.shared.clock.until(until) > self.shared.options.linger;
        until > self.shared.clock.now() && (under_pressure || far && self.lingers_for() == Duration::MAX)
    }

    /// How much longer a run stays in memory that waits for what others do, which may come at any moment.
    fn lingers_for(&self) -> Duration {
        let left = self.shared.options.linger.saturating_sub(self.quiet_since.elapsed());
        if left.is_zero() || !self.cell.awaits_outside() { Duration::MAX } else { left }
    }

    fn take_outcome(&mut self, outcome: Option<Outcome>) -> Result<(), Exit> {
        self.pending.pop_front();
        match outcome {
            Some(Outcome::Applied | Outcome::Duplicate) => {
                self.cell.committed();
                Ok(())
            }
            Some(Outcome::KeyTaken { id }) => {
                self.cell.key_taken(id);
                Ok(())
            }
            Some(Outcome::Refused(error)) if error.kind == BackendErrorKind::Invalid => {
                let error = StoredError::from_error(ErrorKind::Refused, &error).fatal();
                Err(Exit::Ended(Err(error)))
            }
            Some(Outcome::Refused(error)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a record was not written; the run is given up until its lease ends"
                );
                Err(Exit::Lost)
            }
            // The executor has stopped, or answered another write: nothing that this drive knows is certain any more.
            Some(_) | None => Err(Exit::Lost),
        }
    }

    /// Something was woken: bodies, or, if none of ours was, the workflow itself.
    fn look(&mut self) -> Result<(), Exit> {
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
            ForeignAwait::Fail => Err(Exit::Ended(Err(StoredError::new(ErrorKind::Refused, message).fatal()))),
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
        if catch_unwind(AssertUnwindSafe(|| drop(poller))).is_err() {
            tracing::warn!(run_id = %self.run.claim.run_id, "a destructor in the workflow panicked");
        }
    }
}

async fn load_history(shared: &Shared, run: &ClaimedRun) -> Result<Vec<StepAttempt>, Exit> {
    // The first claim of a run is the first that can write.
    if run.claim.epoch == 1 {
        return Ok(Vec::new());
    }
    shared.client.backend().history(run.claim.run_id).await.map_err(Exit::Unreadable)
}

async fn send(executor: &Executor, write: Write) -> Result<PendingOutcome, Exit> {
    executor.send(write).await.map_err(|_| Exit::Lost)
}

/// The answer to the oldest write; for ever, if there is none. `None`: the executor has stopped.
async fn next_outcome(pending: &mut VecDeque<PendingOutcome>) -> Option<Outcome> {
    match pending.front_mut() {
        Some(outcome) => outcome.await.ok(),
        None => std::future::pending().await,
    }
}
