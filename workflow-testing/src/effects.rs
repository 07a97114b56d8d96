//! Effects on other systems, which authors mark in their stubs. A crash must not double them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workflow_sdk::{RunId, Timestamp};

use super::time::VirtualTime;

/// Marks an effect on another system, such as a payment or a mail. Call it in a stub. The
/// [`TestEnv`](super::TestEnv) that runs the body takes note of the effect. Outside of an env the
/// function does nothing.
///
/// The key distinguishes effects that may each happen, such as the number of an order. Two marks
/// with one name and one key are one effect that happened twice, and
/// [`crash_everywhere`](super::TestEnv::crash_everywhere) then fails. If the service recognises a
/// repetition by an idempotency key, use [`idempotent_effect`].
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use workflow_testing::effect;
///
/// struct Printer { pages: AtomicU32 }
///
/// impl Printer {
///     async fn print(&self, page: &str) -> Result<u32, std::io::Error> {
///         effect("print", page);
///         Ok(self.pages.fetch_add(1, Ordering::Relaxed) + 1)
///     }
/// }
/// ```
pub fn effect(name: impl Into<String>, key: impl fmt::Display) {
    mark(name.into(), key.to_string(), false);
}

/// Marks an effect, like [`effect`], on a service that has the effect once per key, however often
/// it is asked. The key is the idempotency key that the service was given.
///
/// Two marks with one name and one key are one effect. A repetition with another key is a second
/// effect, so [`crash_everywhere`](super::TestEnv::crash_everywhere) finds a key that a body makes
/// anew for each attempt.
///
/// ```
/// use workflow_testing::idempotent_effect;
///
/// async fn charge(cents: u64, idempotency_key: String) -> Result<u64, std::io::Error> {
///     idempotent_effect("charge", &idempotency_key);
///     Ok(cents)
/// }
/// ```
pub fn idempotent_effect(name: impl Into<String>, key: impl fmt::Display) {
    mark(name.into(), key.to_string(), true);
}

fn mark(name: String, key: String, idempotent: bool) {
    let ledger = LEDGER.with_borrow(Clone::clone);
    if let Some(ledger) = ledger {
        ledger.mark(name, key, idempotent);
    }
}

/// An effect that a stub has marked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Effect {
    /// The name of the effect.
    pub name: String,
    /// The key of the effect.
    pub key: String,
    /// Whether the service has the effect once per key.
    pub idempotent: bool,
    /// The key of the step whose body marked the effect, and the number of the attempt. `None`
    /// outside of bodies and on other threads.
    pub step: Option<(String, u32)>,
    /// The number of the worker's life in which the effect was marked: 1 until the first crash.
    pub life: u32,
    /// The virtual time of the mark, counted from the beginning of the env.
    pub at: Duration,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "life {} of the worker, {} after the start, ", self.life, Elapsed(self.at))?;
        match &self.step {
            Some((step, attempt)) => write!(f, "step {step:?}, attempt {attempt}, key {:?}", self.key),
            None => write!(f, "outside of a body, key {:?}", self.key),
        }
    }
}

/// A duration. Its `Display` form is for people.
pub(super) struct Elapsed(pub(super) Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds % 86_400 / 3600, seconds % 3600 / 60);
        match (days, hours, minutes) {
            (0, 0, 0) => {}
            (0, 0, minutes) => write!(f, "{minutes} min ")?,
            (0, hours, minutes) => write!(f, "{hours} h {minutes} min ")?,
            (days, hours, minutes) => write!(f, "{days} d {hours} h {minutes} min ")?,
        }
        write!(f, "{:.3} s", Duration::new(seconds % 60, self.0.subsec_nanos()).as_secs_f64())
    }
}

thread_local! {
    /// Whether this is the thread of an env.
    static ON_ENV_THREAD: Cell<bool> = const { Cell::new(false) };
    /// The ledger of the env whose thread this is.
    static LEDGER: RefCell<Option<Arc<Ledger>>> = const { RefCell::new(None) };
    /// The bodies that this thread runs, the innermost last.
    static BODIES: RefCell<Vec<(String, u32)>> = const { RefCell::new(Vec::new()) };
}

/// The effects that were marked in one env, and the activity of its bodies.
#[derive(Debug)]
pub(super) struct Ledger {
    time: Arc<VirtualTime>,
    origin: Timestamp,
    time_passes: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    life: u32,
    effects: Vec<Effect>,
    /// When a body of each run was last polled.
    polled: HashMap<RunId, Duration>,
    overtaken: Option<Overtaken>,
}

/// A body waited for another thread while virtual time went on without it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaken {
    pub(super) run: RunId,
    pub(super) by: Duration,
}

impl Ledger {
    pub(super) fn new(time: Arc<VirtualTime>) -> Arc<Self> {
        let origin = time.now();
        Arc::new(Self { time, origin, time_passes: AtomicBool::new(false), entries: Mutex::default() })
    }

    /// Makes this thread the thread of the env.
    pub(super) fn own_thread(self: &Arc<Self>) {
        ON_ENV_THREAD.set(true);
        self.adopt_thread();
    }

    /// Sends the marks of this thread to this ledger from now on.
    pub(super) fn adopt_thread(self: &Arc<Self>) {
        LEDGER.set(Some(Arc::clone(self)));
    }

    /// Begins the next life of the worker.
    pub(super) fn begin_life(&self) {
        self.entries().life += 1;
    }

    pub(super) fn effects(&self) -> Vec<Effect> {
        self.entries().effects.clone()
    }

    /// Returns the virtual time since the beginning of the env.
    pub(super) fn elapsed(&self) -> Duration {
        self.time.now().since(self.origin)
    }

    /// Sets whether virtual time passes from now on.
    pub(super) fn set_time_passes(&self, passes: bool) {
        self.time_passes.store(passes, Ordering::SeqCst);
    }

    /// Takes note that a body of this run is polled, on the env's thread.
    pub(super) fn body_polled(&self, run: RunId) {
        let at = self.elapsed();
        self.entries().polled.insert(run, at);
    }

    /// Takes note that something of this run is woken. If another thread wakes it while time
    /// passes, then time must not have gone on since the bodies of the run began to wait. While
    /// time stands still, a test may wake anything.
    pub(super) fn run_woken(&self, run: RunId) {
        if ON_ENV_THREAD.get() || !self.time_passes.load(Ordering::SeqCst) {
            return;
        }
        let now = self.elapsed();
        let mut entries = self.entries();
        let waits_since = entries.polled.get(&run).copied().unwrap_or(now);
        if now > waits_since {
            entries.overtaken.get_or_insert(Overtaken { run, by: now - waits_since });
        }
    }

    /// Returns the first body that was overtaken by time.
    pub(super) fn overtaken(&self) -> Option<Overtaken> {
        self.entries().overtaken
    }

    fn mark(&self, name: String, key: String, idempotent: bool) {
        let step = BODIES.with_borrow(|bodies| bodies.last().cloned());
        let at = self.elapsed();
        let mut entries = self.entries();
        let life = entries.life;
        entries.effects.push(Effect { name, key, idempotent, step, life, at });
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes note that this thread runs the body of this step, until [`leave_body`].
pub(super) fn enter_body(step_key: &str, attempt: u32) {
    BODIES.with_borrow_mut(|bodies| bodies.push((step_key.to_owned(), attempt)));
}

pub(super) fn leave_body() {
    BODIES.with_borrow_mut(|bodies| drop(bodies.pop()));
}
