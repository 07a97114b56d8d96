use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Futures that are polled side by side: each when it was woken, and those that were woken together in the order of their
/// numbers. So the order follows from what was delivered, and ten thousand of them cost no more polls than there were wakes.
pub(super) struct Branches<'a, T> {
    running: BTreeMap<usize, Branch<'a, T>>,
    /// Those to be polled now.
    due: BTreeSet<usize>,
    woken: Arc<Woken>,
}

struct Branch<'a, T> {
    future: BoxFuture<'a, T>,
    waker: Waker,
}

/// Those that were woken since they were last looked for, and who is told of it.
#[derive(Default)]
struct Woken(Mutex<(BTreeSet<usize>, Option<Waker>)>);

impl Woken {
    /// Nothing that could panic runs under it, so a poisoned lock is whole.
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

    /// Adds one, to be polled by the next [`Branches::poll_next`].
    pub(super) fn insert(&mut self, number: usize, future: BoxFuture<'a, T>) {
        let waker = Waker::from(Arc::new(BranchWaker { number, woken: Arc::clone(&self.woken) }));
        self.running.insert(number, Branch { future, waker });
        self.due.insert(number);
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Drops them all, in the order of their numbers.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        while let Some(child) = self.running.pop_first() {
            drop(child);
        }
    }

    /// The next that ends. What is woken while others are polled waits for the next call: one that always wakes itself holds
    /// nobody up.
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
