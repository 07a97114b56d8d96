//! Values that all visitors share, each read at most once in a while.

use std::fmt;
use std::time::{Duration, Instant};

use futures::lock::Mutex;

/// A value with the time at which it was read.
pub(crate) struct Cached<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Cached<T> {
    /// Returns the value. One that is at least as old as `age` is read again, once for all callers
    /// that ask meanwhile.
    ///
    /// # Errors
    /// The error of `read`. It is not kept, so the next call reads again.
    pub(crate) async fn get<E>(&self, age: Duration, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut known = self.0.lock().await;
        if let Some((_, value)) = known.as_ref().filter(|(at, _)| at.elapsed() < age) {
            return Ok(value.clone());
        }
        let value = read.await?;
        *known = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> fmt::Debug for Cached<T> {
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
        assert_eq!(cached.get(Duration::MAX, async { Err::<u8, _>("away") }).await, Err("away"));
        for (age, expected) in [(Duration::MAX, 1), (Duration::MAX, 1), (Duration::ZERO, 3), (Duration::MAX, 3)] {
            let next = if age.is_zero() { 3 } else { 1 };
            assert_eq!(cached.get(age, async { Ok::<_, ()>(next) }).await, Ok(expected));
        }
    }

    #[tokio::test]
    async fn callers_that_ask_at_once_share_one_read() {
        let (cached, reads) = (Cached::default(), AtomicU8::new(0));
        let read = || async {
            tokio::task::yield_now().await;
            Ok::<_, ()>(reads.fetch_add(1, Ordering::Relaxed))
        };
        let both = join(cached.get(Duration::MAX, read()), cached.get(Duration::MAX, read())).await;
        assert_eq!(both, (Ok(0), Ok(0)));
    }
}
