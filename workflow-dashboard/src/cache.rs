//! Values that all visitors share, each read at most once in a while.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A value with the time at which it was read.
pub(crate) struct Cached<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Cached<T> {
    /// Returns the value. One that is at least as old as `age` is read again.
    ///
    /// # Errors
    /// Those of `read`. The next call reads again.
    pub(crate) async fn get<E>(&self, age: Duration, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let known = self.0.lock().ok().and_then(|known| known.clone());
        if let Some((_, value)) = known.filter(|(at, _)| at.elapsed() < age) {
            return Ok(value);
        }
        let value = read.await?;
        if let Ok(mut known) = self.0.lock() {
            *known = Some((Instant::now(), value.clone()));
        }
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
}
