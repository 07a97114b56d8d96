use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use workflow_sdk::{Client, NamesSignal, RunId, RunsWith, SignalOutcome, Start, Timestamp};

use workflow_worker::Worker;

use super::commit_log::CommitLog;
use super::env_config::EnvConfig;
use super::env_thread::EnvThread;
use super::{CrashEverywhere, Effect, Interleave, TestError, TestRun};

/// The default start time of an env: 2027-01-01T00:00:00Z.
const DEFAULT_START: Timestamp = Timestamp::from_micros(1_798_761_600_000_000);

/// A database in memory and a worker beside it, in virtual time. See the
/// [crate's documentation](crate).
///
/// The env lives on a thread of its own, with a paused clock of its own, so a test may use any
/// runtime. Time passes only in [`TestEnv::advance`] and [`TestRun::finish`].
pub struct TestEnv<S = ()> {
    config: Arc<EnvConfig<S>>,
    thread: EnvThread,
    state: Arc<S>,
}

impl TestEnv<()> {
    /// Creates an env whose workflows need no state. Returns a builder: register workflows, then
    /// await it.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_testing::{TestEnv, TestError};
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     ctx.step("compose", async || Ok::<_, Error>(format!("hello, {name}"))).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), TestError> {
    /// let env = TestEnv::new().register(greet).await?;
    /// let run = env.start(greet, "Ada".to_string()).await?;
    /// assert_eq!(run.result().await?, "hello, Ada");
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "the builder becomes an env when it is awaited")]
    pub fn new() -> TestEnvBuilder<()> {
        Self::with_state(|| ())
    }
}

impl<S: Send + Sync + 'static> TestEnv<S> {
    /// Creates an env whose workflows get the state that this function makes: stubs of other
    /// systems, and configuration. Returns a builder: register workflows, then await it.
    ///
    /// The function is called once for the env. [`TestEnv::crash_everywhere`] and
    /// [`TestEnv::interleave`] call it once more for each of their runs, because each of these has
    /// a database and a worker of its own.
    pub fn with_state(state: impl Fn() -> S + Send + Sync + 'static) -> TestEnvBuilder<S> {
        TestEnvBuilder(EnvConfig {
            state: Box::new(state),
            registered: Vec::new(),
            workflows: Vec::new(),
            start: DEFAULT_START,
            configure: None,
            ids: AtomicU64::new(1),
        })
    }

    /// Starts a run. Returns a builder: set options, then await it.
    ///
    /// # Errors
    /// [`TestError::NotRegistered`] if the env does not know the workflow, [`TestError::Client`] if
    /// the start is refused.
    pub fn start<W: RunsWith<S>>(&self, workflow: W, input: W::Input) -> TestStart<'_, S, W> {
        let _ = workflow;
        TestStart { env: self, input, with: None, workflow: std::marker::PhantomData }
    }

    /// Sends a signal to a run.
    ///
    /// # Errors
    /// [`TestError::Client`] if the signal is refused.
    pub async fn signal<O, T>(
        &self,
        run: &TestRun<O>,
        name: impl NamesSignal<T>,
        payload: &T,
    ) -> Result<SignalOutcome, TestError>
    where
        T: Serialize + DeserializeOwned,
    {
        let send = self.client().await?.signal(run.id(), name.signal_name(), payload);
        let answer = self.thread.call(move |process| async move {
            let answer = send.await;
            process.settle().await;
            answer
        });
        Ok(answer.await??)
    }

    /// Lets this much time pass. Timers, retries, deadlines and leases that end meanwhile do so in
    /// their order. The consequences of each are done before the next. Returns when everything
    /// waits again. Time leaps to the next timer, so years in which nothing happens cost as much as
    /// minutes.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker has ended.
    pub async fn advance(&self, by: Duration) -> Result<(), TestError> {
        self.thread.call(move |process| async move { process.advance(by).await }).await
    }

    /// Returns when everything waits. No time passes.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker has ended.
    pub async fn settle(&self) -> Result<(), TestError> {
        self.thread.call(|process| async move { process.settle().await }).await
    }

    /// Returns the present virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.thread.surroundings.time.now()
    }

    /// Kills the worker and the client. Their futures are dropped, and data that they have not
    /// committed is lost.
    ///
    /// Until [`TestEnv::restart`] there is no worker, however much time passes. Clients and handles
    /// that were taken before are dead. A [`TestRun`] goes on with the new ones.
    ///
    /// # Errors
    /// [`TestError::Thread`] if the env's thread is gone.
    pub async fn crash(&self) -> Result<(), TestError> {
        self.thread.crash().await
    }

    /// Starts a worker in place of the one that died. The runs of the dead worker are due at once.
    /// In production they are due when another worker has noticed its death, about a second later.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker does not start.
    pub async fn restart(&self) -> Result<(), TestError> {
        let restarted = self.thread.call(|process| async move {
            process.start_worker();
            process.settle().await;
        });
        restarted.await
    }

    /// Returns an ordinary client of the env's database, which works until the next
    /// [crash](TestEnv::crash).
    ///
    /// To wait for a result, use [`TestRun`]. A wait by the client takes real time, until another
    /// task lets the virtual time pass that the run needs.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker has ended.
    pub async fn client(&self) -> Result<Client, TestError> {
        self.thread.call(|process| async move { process.client.clone() }).await
    }

    /// Returns the run with this id, which was not started by [`TestEnv::start`].
    #[must_use]
    pub fn run<O>(&self, id: RunId) -> TestRun<O> {
        TestRun::new(self.thread.clone(), id)
    }

    /// Returns the state of the env's worker, with its stubs.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the effects that stubs have marked with [`effect`](super::effect) and
    /// [`idempotent_effect`](super::idempotent_effect), in their order.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.thread.surroundings.ledger.effects()
    }

    /// Runs the workflow once without a fault, then twice for every commit that it made: once with
    /// a worker that dies before the commit, and once with a worker that dies after it. Each time
    /// another worker goes on. Returns a builder: await it.
    ///
    /// Only marked effects can be found to happen twice. If none is marked, a warning in the log
    /// and [`Survived::effects`](super::Survived::effects) say so.
    ///
    /// Each run has a database, a worker, a thread and a state of its own, and the same input, id
    /// and start time. As many runs are made at once as the machine has processors. A worker that
    /// dies before the commit of a step's outcome has run the step's body. So the effect has
    /// happened, and the body runs again.
    ///
    /// # Errors
    /// [`TestError::NotCrashSafe`] if a run ends in another way than the first one, if the body of
    /// a step began whose outcome was recorded, or if an [`effect`](super::effect) happened more
    /// often than its key allows. [`TestError::StillWaiting`] if the run waits for something that
    /// does not come with time.
    pub fn crash_everywhere<W: RunsWith<S>>(&self, workflow: W, input: W::Input) -> CrashEverywhere<S, W> {
        let _ = workflow;
        CrashEverywhere::new(Arc::clone(&self.config), &input)
    }

    /// Runs the workflow once, then once per seed. With a seed, each body is delayed by at most 64
    /// ms of virtual time, which the seed determines, so that concurrent steps end in other orders.
    /// Returns a builder: await it.
    ///
    /// # Errors
    /// [`TestError::OrderMatters`] if a run ends in another way than the first one, or if its
    /// history does not fit the code on replay. [`TestError::StillWaiting`] if the run waits for
    /// something that does not come with time.
    pub fn interleave<W: RunsWith<S>>(
        &self,
        workflow: W,
        input: W::Input,
        seeds: impl IntoIterator<Item = u64>,
    ) -> Interleave<S, W> {
        let _ = workflow;
        Interleave::new(Arc::clone(&self.config), &input, seeds.into_iter().collect())
    }
}

impl<S> fmt::Debug for TestEnv<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnv").field("config", &self.config).field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// The builder of a [`TestEnv`]: register workflows, then await it.
#[must_use = "the builder does nothing until it is awaited"]
pub struct TestEnvBuilder<S>(EnvConfig<S>);

impl<S: Send + Sync + 'static> TestEnvBuilder<S> {
    /// Registers a workflow with the env's worker.
    pub fn register<W: RunsWith<S>>(mut self, workflow: W) -> Self {
        let _ = workflow;
        self.0.register::<W>();
        self
    }

    /// Sets the virtual time at which the env begins. Default: 2027-01-01T00:00:00Z.
    pub fn start_time(mut self, start: impl Into<Timestamp>) -> Self {
        self.0.start = start.into();
        self
    }

    /// Sets options of the env's worker: `|worker| worker.max_crashes(1)`. The function is called
    /// each time that a worker is started.
    ///
    /// The defaults are those of [`Worker`], with these exceptions. `linger` is zero, so every wait
    /// is parked and a replay reaches the code after it. `foreign_await` fails the run. `lease` and
    /// `poll_interval` are a year, because the database has no other worker.
    pub fn worker(mut self, configure: impl Fn(Worker<S>) -> Worker<S> + Send + Sync + 'static) -> Self {
        self.0.configure = Some(Arc::new(configure));
        self
    }
}

impl<S: Send + Sync + 'static> IntoFuture for TestEnvBuilder<S> {
    type Output = Result<TestEnv<S>, TestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let config = Arc::new(self.0);
            let (thread, state) = config.start_thread(CommitLog::default(), None)?;
            let env = TestEnv { config, thread, state };
            // If the worker refuses its options or workflows, that shows now.
            env.settle().await?;
            env.settle().await?;
            Ok(env)
        })
    }
}

impl<S> fmt::Debug for TestEnvBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestEnvBuilder").field(&self.0).finish()
    }
}

type With<O> = Box<dyn FnOnce(Start<O>) -> Start<O> + Send>;

/// The builder of a run: set options, then await it.
#[must_use = "the run is not started until this is awaited"]
pub struct TestStart<'a, S, W: RunsWith<S>> {
    env: &'a TestEnv<S>,
    input: W::Input,
    with: Option<With<W::Output>>,
    workflow: std::marker::PhantomData<fn() -> W>,
}

impl<S, W: RunsWith<S>> TestStart<'_, S, W> {
    /// Sets options of the start: `|start|
    /// start.key("order-42").deadline(Duration::from_secs(3600))`.
    pub fn with(mut self, options: impl FnOnce(Start<W::Output>) -> Start<W::Output> + Send + 'static) -> Self {
        self.with = Some(Box::new(options));
        self
    }
}

impl<'a, S: Send + Sync + 'static, W: RunsWith<S>> IntoFuture for TestStart<'a, S, W> {
    type Output = Result<TestRun<W::Output>, TestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { env, input, with, .. } = self;
            env.config.check::<W>()?;
            let id = env.config.next_id();
            let started = env.thread.call(move |process| {
                let mut start = process.client.start_of::<W>(&input);
                if let Some(id) = id {
                    start = start.id(id);
                }
                if let Some(with) = with {
                    start = with(start);
                }
                async move {
                    let started = start.await;
                    process.settle().await;
                    started.map(|handle| handle.id())
                }
            });
            Ok(env.run(started.await??))
        })
    }
}

impl<S, W: RunsWith<S>> fmt::Debug for TestStart<'_, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStart").field("workflow", &W::NAME).finish_non_exhaustive()
    }
}
