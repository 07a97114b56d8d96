use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::Result;
use crate::model::{ErrorKind, StoredError};

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
}

/// Polls a workflow, and tells wakes by its own calls from wakes by anything else.
pub struct Poller {
    future: WorkflowFuture,
    root: Arc<RootWaker>,
}

/// After so many polls in a row that each woke the workflow again, it is left pending: it would block its thread.
const MAX_POLLS: u32 = 10_000;

impl Poller {
    /// Over this future.
    pub fn new(future: WorkflowFuture, port: Arc<dyn Port>) -> Self {
        Self { future, root: Arc::new(RootWaker { phase: AtomicU8::new(QUIET), port }) }
    }

    /// Polls until the workflow is quiet. Combinators such as `FuturesUnordered` wake themselves to be polled again; that
    /// must be over before the next outcome is delivered.
    pub fn poll(&mut self) -> Polled {
        for _ in 0..MAX_POLLS {
            self.root.phase.store(POLLING, Ordering::Release);
            let waker = Waker::from(Arc::clone(&self.root));
            let future = self.future.as_mut();
            let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(&waker))));
            let woken = self.root.phase.swap(QUIET, Ordering::AcqRel) == POLLING_WOKEN;
            match polled {
                Ok(Poll::Ready(result)) => return Polled::Ended(result.map_err(crate::Error::into_stored)),
                Ok(Poll::Pending) if woken => {}
                Ok(Poll::Pending) => return Polled::Pending,
                Err(panic) => return Polled::Ended(Err(panic_error("the workflow", panic.as_ref()))),
            }
        }
        Polled::Pending
    }

    /// Runs what wakes calls, so that these wakes do not count as foreign.
    pub fn waking<R>(&self, wake: impl FnOnce() -> R) -> R {
        self.root.phase.store(WAKING, Ordering::Release);
        let result = wake();
        self.root.phase.store(QUIET, Ordering::Release);
        result
    }

    /// Whether, since the last call, the workflow was woken by something that is no call of its context.
    pub fn take_foreign_wake(&self) -> bool {
        self.root.phase.compare_exchange(FOREIGN, QUIET, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

/// Nothing happens.
const QUIET: u8 = 0;
/// The drive wakes calls: their wakes reach the root through their combinators.
const WAKING: u8 = 1;
/// The workflow is being polled.
const POLLING: u8 = 2;
/// It was woken while it was polled: it asks to be polled again.
const POLLING_WOKEN: u8 = 3;
/// It was woken while nothing of ours moved.
const FOREIGN: u8 = 4;

/// The waker with which the workflow itself is polled.
struct RootWaker {
    phase: AtomicU8,
    port: Arc<dyn Port>,
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |phase| match phase {
            QUIET => Some(FOREIGN),
            POLLING => Some(POLLING_WOKEN),
            _ => None,
        };
        if self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(QUIET) {
            self.port.wake();
        }
    }
}

/// A caught panic as an error.
pub(super) fn panic_error(place: &str, panic: &(dyn Any + Send)) -> StoredError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text");
    StoredError::new(ErrorKind::Panic, format!("{place} panicked: {text}"))
}
