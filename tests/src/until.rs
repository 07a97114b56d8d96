//! Waits for a fact.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use workflow_sdk::{Event, Observer};

/// Changes after each event of this process's engines and each note of a probe.
static CHANGES: LazyLock<watch::Sender<()>> = LazyLock::new(|| watch::Sender::new(()));

/// The longest time between two looks. Some facts come without an event: another process commits,
/// or the system does something.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(20);

/// Has all waits look for their facts again.
pub fn changed() {
    CHANGES.send_replace(());
}

/// An observer that has all waits look again after each event.
#[derive(Debug)]
pub struct LookAgain;

impl Observer for LookAgain {
    fn event(&self, _: &Event<'_>) {
        changed();
    }
}

/// Calls `look` until it returns a value: after each event of an engine in this process, after each
/// note of a probe, and otherwise every 50 milliseconds.
///
/// # Panics
/// Panics with `what` after 20 seconds: long enough for a busy machine, so a test never passes or
/// fails by speed.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut changes = CHANGES.subscribe();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        // The result does not matter: the wait looks again in either case.
        let _ = tokio::time::timeout(LONGEST_PAUSE, changes.changed()).await;
    }
}
