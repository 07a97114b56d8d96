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

/// A workflow's future, boxed: gives the output as JSON text.
pub type WorkflowFuture = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// What a poll of a workflow gave.
#[derive(Debug)]
pub enum Polled {
    /// It waits.
    Pending,
    /// It ended.
    Ended(std::result::Result<String, StoredError>),
    /// Its run continues as new, with this input.
    Continued(String),
}

/// Polls a workflow, and tells wakes by its own calls from wakes by anything else.
pub struct Poller {
    future: WorkflowFuture,
    root: Arc<RootWaker>,
}

/// After so many polls in a row that each woke the workflow again, it lets others use its thread for a moment. What wakes
/// itself for so long is taken for something that is no call.
const MAX_POLLS: u32 = 10_000;

impl Poller {
    /// Over this future.
    pub fn new(future: WorkflowFuture, port: Arc<dyn Port>) -> Self {
        let root = RootWaker { again: AtomicBool::new(false), foreign: AtomicBool::new(false), port };
        Self { future, root: Arc::new(root) }
    }

    /// Polls until the workflow is quiet. Combinators such as `FuturesUnordered` wake themselves to be polled again; that
    /// must be over before the next outcome is delivered.
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
        self.root.wake_from_outside();
        Polled::Pending
    }

    fn poll_once(&mut self) -> std::thread::Result<Poll<Result<String>>> {
        let _polling = Activity::Polling(self.root.address()).begin();
        let waker = Waker::from(Arc::clone(&self.root));
        let future = self.future.as_mut();
        catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(&waker))))
    }

    /// Runs what wakes calls, so that these wakes do not count as foreign.
    pub fn waking<R>(&self, wake: impl FnOnce() -> R) -> R {
        let _waking = Activity::Waking(self.root.address()).begin();
        wake()
    }

    /// Whether, since the last call, the workflow was woken by something that is no call of its context.
    pub fn take_foreign_wake(&self) -> bool {
        self.root.foreign.swap(false, Ordering::AcqRel)
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

/// What this thread is at. A wake of a workflow belongs to it only if it comes from the thread that is at that workflow: so
/// a wake from elsewhere is neither lost nor missed, whenever it comes.
#[derive(Clone, Copy)]
enum Activity {
    /// Nothing of a workflow's own: no drive, or the body of a step.
    Other,
    /// Polls the workflow with this root. If the workflow is woken, it asks to be polled again.
    Polling(usize),
    /// Wakes calls of the workflow with this root: their wakes reach the root through their combinators.
    Waking(usize),
}

thread_local! {
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity::Other) };
}

impl Activity {
    /// Begins it; it ends with the returned guard.
    fn begin(self) -> ActivityGuard {
        ActivityGuard { outer: ACTIVITY.replace(self) }
    }
}

/// Until it is dropped, this thread runs the body of a step. If that wakes the workflow (by a channel, say), the wake is
/// foreign: no replay would bring it.
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

/// The waker with which the workflow itself is polled.
struct RootWaker {
    /// The workflow asks to be polled again.
    again: AtomicBool,
    /// It was woken by something that is none of its calls.
    foreign: AtomicBool,
    port: Arc<dyn Port>,
}

impl RootWaker {
    /// Tells it from the roots of other workflows.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn wake_from_outside(&self) {
        if !self.foreign.swap(true, Ordering::AcqRel) {
            self.port.wake();
        }
    }
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match ACTIVITY.get() {
            Activity::Polling(root) if root == self.address() => self.again.store(true, Ordering::Release),
            Activity::Waking(root) if root == self.address() => {}
            Activity::Polling(_) | Activity::Waking(_) | Activity::Other => self.wake_from_outside(),
        }
    }
}

/// A caught panic as an error.
pub fn panic_error(place: &str, panic: &(dyn Any + Send)) -> StoredError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text");
    StoredError::new(ErrorKind::Panic, format!("{place} panicked: {text}"))
}
