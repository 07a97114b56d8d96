use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::model::{ErrorKind, StoredError};
use crate::runtime::Result;

use super::Port;

/// A workflow's boxed future. Its output is JSON text.
pub type WorkflowFuture = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// The result of polling a workflow.
#[derive(Debug)]
pub enum Polled {
    /// The workflow waits.
    Pending,
    /// The workflow ended.
    Ended(std::result::Result<String, StoredError>),
    /// The run continues as new, with this input.
    Continued(String),
}

/// Polls a workflow and distinguishes wakes by its own calls from foreign wakes.
pub struct Poller {
    future: WorkflowFuture,
    root: Arc<Root>,
    waker: Arc<RootWaker>,
}

/// The number of consecutive polls after which the workflow yields its thread if each poll woke it
/// again. Something that is not a call of the context then keeps waking it.
const MAX_POLLS: u32 = 10_000;

impl Poller {
    /// Creates a poller of this future.
    pub fn new(future: WorkflowFuture, port: Arc<dyn Port>) -> Self {
        let [again, foreign, excused] = [false; 3].map(AtomicBool::new);
        let root = Arc::new(Root { again, foreign, excused, port });
        Self { future, waker: RootWaker::of(&root), root }
    }

    /// Polls the workflow until it no longer wakes itself. Combinators such as `FuturesUnordered`
    /// wake themselves to be polled again, and this must end before the next outcome is delivered.
    pub fn poll(&mut self) -> Polled {
        for _ in 0..MAX_POLLS {
            match self.poll_once() {
                Ok(Poll::Ready(Ok(output))) => return Polled::Ended(Ok(output)),
                Ok(Poll::Ready(Err(error))) => {
                    return error.into_end().map_or_else(|error| Polled::Ended(Err(error)), Polled::Continued);
                }
                Ok(Poll::Pending) if self.root.again.swap(false, Ordering::AcqRel) => {}
                Ok(Poll::Pending) => return Polled::Pending,
                Err(panic) => return Polled::Ended(Err(panic_error("the workflow", panic.as_ref()))),
            }
        }
        self.root.wake_foreign();
        Polled::Pending
    }

    fn poll_once(&mut self) -> std::thread::Result<Poll<Result<String>>> {
        let _polling = Activity::Polling(self.root.address()).begin();
        let waker = Waker::from(Arc::clone(&self.waker));
        let future = self.future.as_mut();
        catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(&waker))))
    }

    /// Runs `wake`, which wakes calls of this workflow, so that these wakes do not count as
    /// foreign.
    pub fn waking<R>(&self, wake: impl FnOnce() -> R) -> R {
        let _waking = Activity::Waking(self.root.address()).begin();
        wake()
    }

    /// Returns whether a foreign wake has occurred since the last call: the workflow was woken by
    /// something other than a call of its context.
    pub fn take_foreign_wake(&self) -> bool {
        self.root.foreign.swap(false, Ordering::AcqRel)
    }

    /// Excuses the wakes that the last poll has asked for, whenever they come: without budget,
    /// `tokio::select!` asks for one in place of polling its branches.
    pub fn excuse_wakes(&mut self) {
        self.waker.is_excused.store(true, Ordering::Release);
        self.waker = RootWaker::of(&self.root);
    }

    /// Returns whether an excused wake has occurred since the last call.
    pub fn take_excused_wake(&self) -> bool {
        self.root.excused.swap(false, Ordering::AcqRel)
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

/// The present activity of a thread. A wake counts as the workflow's own only if it comes from the
/// thread that works on that workflow. A wake from another thread is therefore always recognized as
/// foreign, whenever it comes.
#[derive(Clone, Copy)]
enum Activity {
    /// Nothing that belongs to a workflow: no drive, or the body of a step.
    Other,
    /// Polls the workflow with this root. If the workflow is woken meanwhile, it is polled again.
    Polling(usize),
    /// Wakes calls of the workflow with this root. Their wakes reach the root through their
    /// combinators.
    Waking(usize),
}

thread_local! {
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity::Other) };
}

impl Activity {
    /// Begins this activity. It ends when the returned guard is dropped.
    fn begin(self) -> ActivityGuard {
        ActivityGuard { outer: ACTIVITY.replace(self) }
    }
}

/// Marks that this thread runs the body of a step until the guard is dropped. If the body wakes the
/// workflow, through a channel for example, the wake is foreign: no replay would repeat it.
pub(super) fn in_body() -> ActivityGuard {
    Activity::Other.begin()
}

pub(super) struct ActivityGuard {
    outer: Activity,
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        ACTIVITY.set(self.outer);
    }
}

/// How the workflow itself was woken.
struct Root {
    /// Whether the workflow asks to be polled again.
    again: AtomicBool,
    /// Whether something other than its calls has woken the workflow.
    foreign: AtomicBool,
    /// Whether that was only a wake that is excused.
    excused: AtomicBool,
    port: Arc<dyn Port>,
}

impl Root {
    /// Returns a number that distinguishes this root from the roots of other workflows.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn wake_foreign(&self) {
        self.wake(&self.foreign);
    }

    fn wake(&self, kind: &AtomicBool) {
        if !kind.swap(true, Ordering::AcqRel) {
            self.port.wake();
        }
    }
}

/// The waker with which the workflow itself is polled.
struct RootWaker {
    root: Arc<Root>,
    is_excused: AtomicBool,
}

impl RootWaker {
    fn of(root: &Arc<Root>) -> Arc<Self> {
        Arc::new(Self { root: Arc::clone(root), is_excused: AtomicBool::new(false) })
    }
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let root = &self.root;
        match ACTIVITY.get() {
            Activity::Polling(address) if address == root.address() => root.again.store(true, Ordering::Release),
            Activity::Waking(address) if address == root.address() => {}
            _ if self.is_excused.load(Ordering::Acquire) => root.wake(&root.excused),
            Activity::Polling(_) | Activity::Waking(_) | Activity::Other => root.wake_foreign(),
        }
    }
}

/// Converts a caught panic into an error.
pub fn panic_error(place: &str, panic: &(dyn Any + Send)) -> StoredError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    StoredError::new(ErrorKind::Panic, format!("{place} panicked: {text}"))
}
