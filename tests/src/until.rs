//! Waits for a fact.

use std::time::{Duration, Instant};

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls `look` until it returns a value.
///
/// # Panics
/// Panics with `what` after 20 seconds: long enough for a busy machine, so a test never passes or
/// fails by speed.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        // This delay decides only how often `look` is called, never how long a test waits.
        tokio::time::sleep((begun.elapsed() / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
    }
}
