//! The thread of an env. It runs the env's processes one after the other, each on a paused runtime
//! of its own. Each of them is one life of the worker.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use super::TestError;
use super::effects::Overtaken;
use super::idle::{Idle, hook};
use super::process::{Call, Process};
use super::surroundings::Surroundings;

/// A handle to an env's thread. The thread ends with the last handle.
#[derive(Clone)]
pub(super) struct EnvThread {
    orders: mpsc::UnboundedSender<Order>,
    pub(super) surroundings: Arc<Surroundings>,
}

enum Order {
    Call(Call),
    /// The process dies. The next one has a client and no worker.
    Crash(oneshot::Sender<()>),
}

/// The reason why a process ended.
enum End {
    /// A test asked for it. The next process has no worker until the test starts one.
    Crashed(oneshot::Sender<()>),
    /// The worker reached the commit at which it was to die. The next process has a worker.
    Struck,
    /// The last handle was dropped. There is no next process.
    Closed,
}

impl EnvThread {
    /// Starts the thread.
    pub(super) fn begin(surroundings: Arc<Surroundings>) -> Result<Self, TestError> {
        let (orders, taken) = mpsc::unbounded_channel();
        let on_thread = Arc::clone(&surroundings);
        std::thread::Builder::new()
            .name("workflow-test".into())
            .spawn(move || live_on(&on_thread, taken))
            .map_err(|error| TestError::Thread { reason: error.to_string() })?;
        Ok(Self { orders, surroundings })
    }

    /// Calls this function in the process.
    ///
    /// # Errors
    /// [`TestError::Crashed`] if the process dies during the call.
    pub(super) async fn call<T, F>(&self, call: impl FnOnce(Arc<Process>) -> F + Send + 'static) -> Result<T, TestError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call: Call = Box::new(move |process| -> BoxFuture<'static, ()> {
            Box::pin(async move {
                let _ = reply.send(call(process).await);
            })
        });
        let gone = || TestError::Thread { reason: "it ended by itself".into() };
        self.orders.send(Order::Call(call)).map_err(|_| gone())?;
        let answer = answer.await.map_err(|_| TestError::Crashed)?;
        if let Some(reason) = self.surroundings.worker_error() {
            return Err(TestError::Worker { reason });
        }
        match self.surroundings.ledger.overtaken() {
            Some(Overtaken { run, by }) => Err(TestError::Overtaken { run, by }),
            None => Ok(answer),
        }
    }

    /// Kills the process. Returns when it is dead.
    pub(super) async fn crash(&self) -> Result<(), TestError> {
        let (died, dead) = oneshot::channel();
        let gone = || TestError::Thread { reason: "it ended by itself".into() };
        self.orders.send(Order::Crash(died)).map_err(|_| gone())?;
        dead.await.map_err(|_| gone())
    }
}

fn live_on(surroundings: &Arc<Surroundings>, mut orders: mpsc::UnboundedReceiver<Order>) {
    surroundings.ledger.own_thread();
    // So that random values are the same in every execution of a test.
    fastrand::seed(1);
    let mut with_worker = true;
    loop {
        let idle = Arc::new(Idle::default());
        let runtime = match paused_runtime(surroundings, &idle) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "a test env has no runtime");
                return;
            }
        };
        let end = runtime.block_on(live(surroundings, &idle, &mut orders, with_worker));
        // Drops every task of the process.
        runtime.shutdown_background();
        match end {
            End::Crashed(died) => {
                with_worker = false;
                let _ = died.send(());
            }
            End::Struck => with_worker = true,
            End::Closed => return,
        }
    }
}

/// Builds a runtime with a paused clock and without I/O. A stub that uses I/O would wait in real
/// time, and tokio refuses it. After each task the runtime checks whether the process is dead.
fn paused_runtime(surroundings: &Arc<Surroundings>, idle: &Arc<Idle>) -> std::io::Result<Runtime> {
    let ledger = Arc::clone(&surroundings.ledger);
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .event_interval(1)
        .on_thread_park(hook(idle))
        .on_thread_start(move || ledger.adopt_thread())
        .build()
}

async fn live(
    surroundings: &Arc<Surroundings>,
    idle: &Arc<Idle>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    with_worker: bool,
) -> End {
    surroundings.time.follow_runtime();
    surroundings.ledger.begin_life();
    surroundings.log.begin_life();
    let process = Process::begin(surroundings, idle);
    if with_worker {
        process.start_worker();
        // Before the first order, so that every execution of a test has the same order of events.
        tokio::select! {
            biased;
            () = surroundings.log.died() => return End::Struck,
            () = process.settle() => {}
        }
    }
    loop {
        let order = tokio::select! {
            biased;
            () = surroundings.log.died() => return End::Struck,
            order = orders.recv() => order,
        };
        match order {
            None => return End::Closed,
            Some(Order::Crash(died)) => return End::Crashed(died),
            Some(Order::Call(call)) => tokio::select! {
                biased;
                () = surroundings.log.died() => return End::Struck,
                () = call(Arc::clone(&process)) => {}
            },
        }
    }
}

impl fmt::Debug for EnvThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvThread").field("surroundings", &self.surroundings).finish_non_exhaustive()
    }
}
