use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
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

/// After so many polls in a row that each woke the workflow again, the thread is given to others for a while.
const MAX_POLLS: u32 = 10_000;

impl Poller {
    /// Over this future.
    pub fn new(future: WorkflowFuture, port: Arc<dyn Port>) -> Self {
        Self {
            future,
            root: Arc::new(RootWaker { phase: AtomicU8::new(QUIET), foreign: AtomicBool::new(false), port }),
        }
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
        self.root.woken_by_another();
        Polled::Pending
    }

    /// Runs what wakes calls, so that these wakes do not count as foreign. Wakes by other threads meanwhile still do.
    pub fn waking<R>(&self, wake: impl FnOnce() -> R) -> R {
        let _ours = Ours(OURS.replace(Arc::as_ptr(&self.root)));
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

thread_local! {
    /// The workflow whose calls this thread wakes: these wakes reach its root through their combinators.
    static OURS: Cell<*const RootWaker> = const { Cell::new(std::ptr::null()) };
}

/// Sets [`OURS`] back, however the waking ends.
struct Ours(*const RootWaker);

impl Drop for Ours {
    fn drop(&mut self) {
        OURS.set(self.0);
    }
}

/// The workflow is not being polled.
const QUIET: u8 = 0;
/// It is being polled.
const POLLING: u8 = 1;
/// It was woken while it was polled: it asks to be polled again.
const POLLING_WOKEN: u8 = 2;

/// The waker with which the workflow itself is polled.
struct RootWaker {
    phase: AtomicU8,
    /// It was woken while nothing of ours moved. Only the drive that answers to it takes it back, so no such wake is lost.
    foreign: AtomicBool,
    port: Arc<dyn Port>,
}

impl RootWaker {
    fn woken_by_another(&self) {
        self.foreign.store(true, Ordering::Release);
        self.port.wake();
    }
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if OURS.get() == Arc::as_ptr(self) {
            return;
        }
        let polled_again = |phase| (phase != QUIET).then_some(POLLING_WOKEN);
        if self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, polled_again).is_err() {
            self.woken_by_another();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;

    use crate::model::Timestamp;

    use super::*;

    #[derive(Debug, Default)]
    struct Woken(AtomicUsize);

    impl Port for Woken {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(0)
        }

        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A workflow that waits for ever, polled once; its waker; how often the drive was asked to look.
    fn waiting() -> (Poller, Waker, Arc<Woken>) {
        let waker = Arc::new(OnceLock::new());
        let (kept, port) = (Arc::clone(&waker), Arc::new(Woken::default()));
        let future = std::future::poll_fn(move |cx: &mut Context<'_>| {
            kept.get_or_init(|| cx.waker().clone());
            Poll::Pending
        });
        let mut poller = Poller::new(Box::pin(future), Arc::clone(&port) as Arc<dyn Port>);
        assert!(matches!(poller.poll(), Polled::Pending));
        (poller, waker.get().unwrap().clone(), port)
    }

    #[test]
    fn wakes_of_its_own_calls_are_not_foreign() {
        let (poller, waker, port) = waiting();
        poller.waking(|| waker.wake_by_ref());
        assert!(!poller.take_foreign_wake());
        assert_eq!(port.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_foreign_wake_outlives_the_waking_of_calls() {
        let (poller, waker, port) = waiting();
        waker.wake_by_ref();
        poller.waking(|| ());
        assert!(poller.take_foreign_wake());
        assert!(!poller.take_foreign_wake());

        poller.waking(|| std::thread::spawn(|| waker.wake()).join().unwrap());
        assert!(poller.take_foreign_wake());
        assert_eq!(port.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_foreign_wake_outlives_a_poll() {
        let (mut poller, waker, _) = waiting();
        waker.wake();
        assert!(matches!(poller.poll(), Polled::Pending));
        assert!(poller.take_foreign_wake());
    }

    #[test]
    fn a_workflow_that_never_rests_asks_to_be_polled_again() {
        let port = Arc::new(Woken::default());
        let restless = std::future::poll_fn(|cx: &mut Context<'_>| {
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        let mut poller = Poller::new(Box::pin(restless), Arc::clone(&port) as Arc<dyn Port>);
        assert!(matches!(poller.poll(), Polled::Pending));
        assert!(poller.take_foreign_wake());
        assert_eq!(port.0.load(Ordering::SeqCst), 1);
    }
}
