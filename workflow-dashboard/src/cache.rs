//! Outcomes that all visitors share, each read at most once in a while.

use std::fmt;
use std::time::{Duration, Instant};

use futures::lock::Mutex;

/// The outcome of a read with the time at which it was read.
pub(crate) struct Cached<T, E>(Mutex<Option<(Instant, Result<T, E>)>>);

impl<T: Clone, E: Clone> Cached<T, E> {
    /// Returns the outcome. One that is at least as old as `age` is read again, once for all
    /// callers that ask meanwhile. A failure is kept too: otherwise each of them would wait for a
    /// database that does not answer, one after the other.
    ///
    /// # Errors
    /// The error of `read`.
    pub(crate) async fn get(&self, age: Duration, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut known = self.0.lock().await;
        if let Some((_, outcome)) = known.as_ref().filter(|(at, _)| at.elapsed() < age) {
            return outcome.clone();
        }
        let outcome = read.await;
        *known = Some((Instant::now(), outcome.clone()));
        outcome
    }
}

impl<T, E> Default for Cached<T, E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T, E> fmt::Debug for Cached<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cached").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use futures::future::join;

    use super::*;

    #[tokio::test]
    async fn a_value_is_read_once_until_it_is_old() {
        let cached = Cached::default();
        for (age, expected) in [(Duration::MAX, 1), (Duration::MAX, 1), (Duration::ZERO, 3), (Duration::MAX, 3)] {
            let next = if age.is_zero() { 3 } else { 1 };
            assert_eq!(cached.get(age, async { Ok::<_, ()>(next) }).await, Ok(expected));
        }
    }

    #[tokio::test]
    async fn callers_that_ask_at_once_share_one_read() {
        let outcomes: [fn(u8) -> Result<u8, u8>; 2] = [Ok, Err];
        for outcome in outcomes {
            let (cached, reads) = (Cached::default(), AtomicU8::new(0));
            let read = || async {
                tokio::task::yield_now().await;
                outcome(reads.fetch_add(1, Ordering::Relaxed))
            };
            let both = join(cached.get(Duration::MAX, read()), cached.get(Duration::MAX, read())).await;
            assert_eq!(both, (outcome(0), outcome(0)));
            assert_eq!(cached.get(Duration::MAX, read()).await, outcome(0));
        }
    }
}
