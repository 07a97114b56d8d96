use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use workflow_engine::executor::ExecutorStopped;
use workflow_engine::observe::Event;
use workflow_engine::runtime::BodyHooks;
use workflow_sdk::{Client, RunsWith, Schedule};

use crate::bulk::execute_bulks;
use crate::claim::claim_runs;
use crate::claim_state::Directive;
use crate::declaration::{ComputedInputs, Schedules};
use crate::idle::claim_until_idle;
use crate::lease::{LeaseThread, beat};
use crate::limit::Limit;
use crate::notifications::{forward_cancels, forward_pauses, forward_wakes, make_way};
use crate::queue::Queue;
use crate::queue_watch::{declare, watch_queues};
use crate::registry::Registry;
use crate::retention::{DeclaredRetention, delete_old_runs};
use crate::schedules::fire_schedules;
use crate::seat_watch::{self, watch_seats};
use crate::shared::Shared;
use crate::shutdown::{ReleaseOnDrop, Signals, drain, write_counts};
use crate::sweep::{expire_runs, fold_counts, warn_of_unserved};
use crate::{ForeignAwait, LapsedLease, WorkerError, WorkerOptions};

/// A worker: claims runs of the workflows that are registered with it, and drives them.
///
/// See the [crate's example](crate).
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<S> {
    pub(crate) client: Client,
    state: Arc<S>,
    pub(crate) registry: Registry,
    schedules: Schedules,
    options: WorkerOptions,
    /// Whether [`Worker::queues`] was called.
    names_queues: bool,
    /// The queues of [`Worker::only_queues`].
    pub(crate) only_queues: Option<Vec<String>>,
    /// The queues of [`Worker::queue`].
    declared: Vec<Queue>,
    /// The limits for steps of [`Worker::limit`].
    limits: Vec<Limit>,
    /// How long ended runs stay: [`Worker::retain`].
    pub(crate) retention: DeclaredRetention,
    body_hooks: Option<Arc<dyn BodyHooks>>,
}

impl<S: Send + Sync + 'static> Worker<S> {
    /// Creates a worker on this client's database. Its workflows get `state` from their context.
    pub fn new(client: Client, state: S) -> Self {
        Self::create(client, Arc::new(state), None)
    }

    /// Creates a worker that shares its state with others, and whose bodies are observed. For the
    /// crate `workflow-testing`.
    #[doc(hidden)]
    pub fn with_body_hooks(client: Client, state: Arc<S>, body_hooks: Arc<dyn BodyHooks>) -> Self {
        Self::create(client, state, Some(body_hooks))
    }

    fn create(client: Client, state: Arc<S>, body_hooks: Option<Arc<dyn BodyHooks>>) -> Self {
        Self {
            client,
            state,
            registry: Registry::default(),
            schedules: Schedules::default(),
            options: WorkerOptions::default(),
            names_queues: false,
            only_queues: None,
            declared: Vec::new(),
            limits: Vec::new(),
            retention: DeclaredRetention::default(),
            body_hooks,
        }
    }

    /// Returns the state that the workflows of this worker get from their context.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Registers the workflow of this type. For the crate `workflow-testing`, which has no value of
    /// the type.
    #[doc(hidden)]
    pub fn register_type<W: RunsWith<S>>(mut self) -> Self {
        self.registry.register::<S, W>(&self.state);
        self
    }

    /// Registers a workflow. The workflow must need the worker's state, or no state. A worker that
    /// names no queues also serves the queue in the workflow's attribute: see
    /// [`WorkerOptions::queues`].
    pub fn register<W: RunsWith<S>>(mut self, workflow: W) -> Self {
        let _ = workflow;
        self.registry.register::<S, W>(&self.state);
        self
    }

    /// Declares a schedule. When the worker starts, it creates the schedule, or changes it if its
    /// declaration has changed. A pause and a change that an operator has made stay.
    ///
    /// Every worker of the database fires every schedule, whether it declares it or not, and need
    /// not know the workflow: it starts a run as a client does. Only the input of
    /// [`Schedule::start_with`] is computed by a worker that declares it. Each occurrence starts
    /// one run, however many workers there are.
    ///
    /// # Errors
    /// [`Worker::run`] returns [`WorkerError::Schedule`] for a declaration that is refused,
    /// [`WorkerError::DuplicateSchedule`], [`WorkerError::ScheduleConflict`] if a client has
    /// created a schedule of this name, or [`WorkerError::Payload`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::Schedule;
    /// use workflow_worker::Worker;
    ///
    /// #[workflow]
    /// async fn report(ctx: &Ctx, day: String) -> Result<()> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let daily = Schedule::cron("daily-report", "0 7 * * MON-FRI")
    ///     .zone("Europe/Berlin")
    ///     .start_with(report, |occurrence| occurrence.date().to_owned());
    /// let worker = Worker::new(client.clone(), ()).register(report).schedule(daily);
    /// # worker.run_until(async {}).await?;
    /// # assert_eq!(client.schedules().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.add(schedule);
        self
    }

    /// Names the group of the schedules that this worker declares, such as the name of the
    /// application. They are then the complete list of that group: when the worker starts, it
    /// retires every other schedule of the group, which a former release has declared. A retired
    /// schedule is paused with the reason, and declaring it again lifts that pause.
    ///
    /// Default: none, and nothing is retired. Give all workers of an application the same schedules
    /// if you name a group, because the worker that starts last decides.
    pub fn schedule_group(mut self, group: impl Into<String>) -> Self {
        self.schedules.set_group(group.into());
        self
    }

    /// See [`WorkerOptions::concurrency`].
    pub fn concurrency(mut self, runs: u32) -> Self {
        self.options.concurrency = runs;
        self
    }

    /// See [`WorkerOptions::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// See [`WorkerOptions::linger`].
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = linger;
        self
    }

    /// See [`WorkerOptions::grace`].
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// See [`WorkerOptions::cancel_grace`].
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.options.cancel_grace = grace;
        self
    }

    /// See [`WorkerOptions::max_crashes`].
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.options.max_crashes = crashes;
        self
    }

    /// See [`WorkerOptions::lapsed_lease`].
    pub fn lapsed_lease(mut self, lapsed_lease: LapsedLease) -> Self {
        self.options.lapsed_lease = lapsed_lease;
        self
    }

    /// See [`WorkerOptions::poll_interval`].
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.options.poll_interval = interval;
        self
    }

    /// Serves these queues instead of the queue `default`. See [`WorkerOptions::queues`].
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.options.queues = queues.into_iter().map(Into::into).collect();
        self.names_queues = true;
        self
    }

    /// Serves this queue and declares its limits, which hold over all workers of the database. If
    /// [`Worker::queues`] is not called, the worker serves only the queues of these calls.
    ///
    /// The limits are written when the worker starts. If several workers declare limits, those of
    /// the worker that started last hold. Limits that an operator has set
    /// ([`QueueHandle::set_limits`]) replace them. A change takes effect on every worker within 2
    /// s.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_worker::{Queue, Worker};
    ///
    /// # #[workflow]
    /// # async fn send(ctx: &Ctx, address: String) -> Result<()> { Ok(()) }
    /// # fn worker(client: Client) -> Worker<()> {
    /// Worker::new(client, ())
    ///     .register(send)
    ///     .queue(Queue::new("mail").concurrency(10))
    ///     .queue(Queue::new("reports"))
    /// # }
    /// ```
    ///
    /// [`QueueHandle::set_limits`]: workflow_sdk::QueueHandle::set_limits
    pub fn queue(mut self, queue: Queue) -> Self {
        self.declared.push(queue);
        self
    }

    /// Declares a limit for steps, which [`Step::limit`](workflow_sdk::Step::limit) names. It holds
    /// over all workers of the database, whether they declare it or not.
    ///
    /// The rule is written when the worker starts. If the limit is declared several times, by
    /// workers or for flows, the last rule holds. A rule that an operator has set
    /// ([`LimitHandle::set`]) replaces it. A change takes effect on every worker within 2 s.
    ///
    /// # Errors
    /// [`Worker::run`] returns [`WorkerError::Name`] for the name of the limit,
    /// [`WorkerError::Rate`] for a rate out of range, and [`WorkerError::DuplicateLimit`] if the
    /// worker declares the limit with two rules.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_worker::{Limit, Worker};
    ///
    /// # async fn llm(_prompt: &str) -> Result<String, std::io::Error> { Ok("42".into()) }
    /// #[workflow]
    /// async fn answer(ctx: &Ctx, account: String) -> Result<String> {
    ///     ctx.step("ask", || llm("why?")).limit("llm", &account).await
    /// }
    ///
    /// # fn worker(client: Client) -> Worker<()> {
    /// Worker::new(client, ()).register(answer).limit(Limit::new("llm").concurrency(10))
    /// # }
    /// ```
    ///
    /// [`LimitHandle::set`]: workflow_sdk::LimitHandle::set
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// See [`WorkerOptions::history_limit`].
    pub fn history_limit(mut self, steps: u64) -> Self {
        self.options.history_limit = steps;
        self
    }

    /// See [`WorkerOptions::history_bytes_limit`].
    pub fn history_bytes_limit(mut self, bytes: u64) -> Self {
        self.options.history_bytes_limit = bytes;
        self
    }

    /// See [`WorkerOptions::foreign_await`].
    pub fn foreign_await(mut self, foreign_await: ForeignAwait) -> Self {
        self.options.foreign_await = foreign_await;
        self
    }

    /// Works until the process gets SIGTERM or SIGINT. Then the worker claims nothing more, lets
    /// running steps end for the [grace](WorkerOptions::grace) time and gives every run back. After
    /// a second signal it gives every run back at once.
    ///
    /// # Errors
    /// Before it works: a [`WorkerError`] about its options, workflows, schedules and limits,
    /// [`WorkerError::Standby`], [`WorkerError::Signals`] or [`WorkerError::Database`]. Later:
    /// [`WorkerError::LeaseThread`] or [`WorkerError::Stopped`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the worker gives every run back at once, without the grace time.
    pub async fn run(self) -> Result<(), WorkerError> {
        self.run_until_signals(false).await
    }

    /// Works until a signal comes, or, with `once`, until nothing is due.
    pub(crate) async fn run_until_signals(self, once: bool) -> Result<(), WorkerError> {
        let signals = Signals::listen()?;
        let (stop_sender, stop) = oneshot::channel();
        let (at_once_sender, at_once) = oneshot::channel();
        let mut listener = JoinSet::new();
        listener.spawn(async move {
            let signals = signals.next().await;
            let _ = stop_sender.send(());
            signals.next().await;
            let _ = at_once_sender.send(());
        });
        self.run_until_then(ready(stop), ready(at_once), once).await
    }

    /// Works until `stop` is ready, and ends like [`Worker::run`] after a signal.
    ///
    /// # Errors
    /// See [`Worker::run`].
    ///
    /// # Cancel safety
    /// See [`Worker::run`].
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) -> Result<(), WorkerError> {
        self.run_until_then(stop, std::future::pending(), false).await
    }

    /// Adds the declared queues to those that the worker serves, and returns them. A worker that
    /// names no queue also serves those of its workflows.
    fn serve_declared(&mut self) -> Vec<Queue> {
        if let Some(only) = self.only_queues.take() {
            self.options.queues = only;
            return std::mem::take(&mut self.declared);
        }
        let queues = &mut self.options.queues;
        let mut more: Vec<String> = self.declared.iter().map(|queue| queue.name.clone()).collect();
        if !self.names_queues && !more.is_empty() {
            queues.clear();
        } else if !self.names_queues {
            more.extend(self.registry.queues().map(str::to_owned));
        }
        for queue in more {
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        std::mem::take(&mut self.declared)
    }

    async fn run_until_then(
        mut self,
        stop: impl Future<Output = ()> + Send,
        stop_at_once: impl Future<Output = ()> + Send,
        once: bool,
    ) -> Result<(), WorkerError> {
        let (declared, limits) = (self.serve_declared(), std::mem::take(&mut self.limits));
        declared.iter().try_for_each(|queue| queue.limits.check())?;
        self.options.check(self.client.store().in_process())?;
        self.registry.check()?;
        if let Some(standby) = self.client.store().standby() {
            return Err(WorkerError::Standby(standby.clone()));
        }
        let inputs = self.schedules.declare(&self.client).await?;
        let retention = self.retention.resolve(&self.registry)?;
        let shared = Shared::new(self.client, self.options, (self.registry, retention), self.body_hooks);
        declare(&shared, &declared).await?;
        seat_watch::declare(&shared, &limits).await?;
        let mut lease = LeaseThread::start(&shared).await?;
        let mut dropped = ReleaseOnDrop(Some(Arc::clone(&shared)));
        let observers = shared.client.observers().clone();
        let (worker, lanes, concurrency) = (shared.id, shared.lanes.len(), shared.options.concurrency);
        observers.event(&Event::WorkerStarted { worker, lanes, concurrency });
        let mut pulse = JoinSet::new();
        if !shared.client.store().in_process() {
            pulse.spawn(beat(Arc::clone(&shared)));
        }
        let result = work(&shared, inputs, &mut lease, stop, once).await;
        if result.is_err() {
            // The running bodies could write nothing more, so they are not waited for.
            shared.claims.direct_all(Directive::Abandon);
        }
        observers.event(&Event::WorkerStopping { worker, claims: shared.claims.all().len() });
        drain(&shared, stop_at_once).await;
        write_counts(&shared).await;
        dropped.0 = None;
        lease.stop().await;
        observers.event(&Event::WorkerStopped { worker });
        result
    }
}

async fn ready(receiver: oneshot::Receiver<()>) {
    if receiver.await.is_err() {
        std::future::pending().await
    }
}

/// Claims and drives until `stop`, with `once` until nothing is due, or until a part that the
/// worker needs has ended.
async fn work(
    shared: &Arc<Shared>,
    inputs: ComputedInputs,
    lease: &mut LeaseThread,
    stop: impl Future<Output = ()> + Send,
    once: bool,
) -> Result<(), WorkerError> {
    let computed = inputs.names();
    let claiming = async {
        if once {
            claim_until_idle(Arc::clone(shared), computed).await
        } else {
            Err(claim_runs(Arc::clone(shared)).await)
        }
    };
    let mut helpers = JoinSet::new();
    helpers.spawn(expire_runs(Arc::clone(shared)));
    helpers.spawn(fire_schedules(Arc::clone(shared), inputs));
    helpers.spawn(forward_cancels(Arc::clone(shared)));
    helpers.spawn(forward_wakes(Arc::clone(shared)));
    helpers.spawn(forward_pauses(Arc::clone(shared)));
    helpers.spawn(warn_of_unserved(Arc::clone(shared)));
    helpers.spawn(make_way(Arc::clone(shared)));
    helpers.spawn(watch_queues(Arc::clone(shared)));
    helpers.spawn(watch_seats(Arc::clone(shared)));
    helpers.spawn(delete_old_runs(Arc::clone(shared)));
    helpers.spawn(execute_bulks(Arc::clone(shared)));
    helpers.spawn(fold_counts(Arc::clone(shared)));
    tokio::select! {
        biased;
        () = stop => Ok(()),
        ended = claiming => ended,
        error = lease.died() => Err(error),
        () = shared.executor().stopped() => Err(ExecutorStopped.into()),
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("registry", &self.registry)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
