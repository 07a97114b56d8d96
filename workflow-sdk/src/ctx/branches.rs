use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Futures that are polled side by side. Each is polled only after it was woken, and futures that
/// were woken together are polled in the order of their numbers. So the order of polls follows from
/// the delivered outcomes, and the number of polls grows with the number of wakes only.
pub(super) struct Branches<'a, T> {
    running: BTreeMap<usize, Branch<'a, T>>,
    /// The numbers of the futures to poll now.
    due: BTreeSet<usize>,
    woken: Arc<Woken>,
}

struct Branch<'a, T> {
    future: BoxFuture<'a, T>,
    waker: Waker,
}

/// The numbers of the futures that were woken since the last poll, and the waker of the task that
/// polls them.
#[derive(Default)]
struct Woken(Mutex<(BTreeSet<usize>, Option<Waker>)>);

impl Woken {
    /// Nothing that could panic runs under this lock, so a poisoned lock holds valid data.
    fn lock(&self) -> MutexGuard<'_, (BTreeSet<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct BranchWaker {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for BranchWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waiter = {
            let mut woken = self.woken.lock();
            if woken.0.insert(self.number) { woken.1.clone() } else { None }
        };
        waiter.into_iter().for_each(Waker::wake);
    }
}

impl<'a, T> Branches<'a, T> {
    pub(super) fn new() -> Self {
        Self { running: BTreeMap::new(), due: BTreeSet::new(), woken: Arc::default() }
    }

    /// Adds a future, which the next [`Branches::poll_next`] polls.
    pub(super) fn insert(&mut self, number: usize, future: BoxFuture<'a, T>) {
        let waker = Waker::from(Arc::new(BranchWaker { number, woken: Arc::clone(&self.woken) }));
        self.running.insert(number, Branch { future, waker });
        self.due.insert(number);
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Drops all futures, in the order of their numbers.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        while let Some(child) = self.running.pop_first() {
            drop(child);
        }
    }

    /// Returns the number and the output of the next future that ends. A future that is woken
    /// during this call waits for the next call, so one that always wakes itself does not delay the
    /// others.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(usize, T)> {
        {
            let mut woken = self.woken.lock();
            self.due.append(&mut woken.0);
            if !woken.1.as_ref().is_some_and(|kept| kept.will_wake(cx.waker())) {
                woken.1 = Some(cx.waker().clone());
            }
        }
        while let Some(number) = self.due.pop_first() {
            let Some(child) = self.running.get_mut(&number) else { continue };
            if let Poll::Ready(output) = child.future.as_mut().poll(&mut Context::from_waker(&child.waker)) {
                self.running.remove(&number);
                return Poll::Ready((number, output));
            }
        }
        Poll::Pending
    }
}

impl<T> fmt::Debug for Branches<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branches").field("running", &self.running.len()).finish_non_exhaustive()
    }
}
