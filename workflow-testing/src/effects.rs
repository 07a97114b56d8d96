//! What authors mark in their stubs: effects on the world outside, which a crash must not double.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workflow_sdk::{RunId, Timestamp};

use super::time::VirtualTime;

/// Marks, inside a stub, an effect on the world outside: money taken, a mail sent. It is known to the [`TestEnv`](super::TestEnv)
/// whose body calls it; outside of one it does nothing.
///
/// The key is what tells two such effects apart in the author's eyes: an order's number, say. The same name and key twice are
/// one effect that happened twice, and [`crash_everywhere`](super::TestEnv::crash_everywhere) then fails. Where the service
/// recognises a repetition by an idempotency key, mark with [`idempotent_effect`].
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

/// Marks an effect as [`effect`] does, on a service that does it once for each key, however often it is asked to: the key is
/// the idempotency key that it was given. The same name and key twice are one effect. Another key in place of the first is
/// another effect: a key that was drawn anew for the repetition is found out.
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

/// An effect that was marked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Effect {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: String,
    /// Whether the service does it once for each key.
    pub idempotent: bool,
    /// The key of the step in whose body it was marked, and the attempt; `None` outside of bodies and on other threads.
    pub step: Option<(String, u32)>,
    /// The number of the worker's life in which it was marked: 1 until the first crash.
    pub life: u32,
    /// When, in virtual time since the beginning of the env.
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

/// A time since the beginning, as people read it.
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
    /// Of the env whose thread this is.
    static LEDGER: RefCell<Option<Arc<Ledger>>> = const { RefCell::new(None) };
    /// The bodies that this thread is in, the innermost last.
    static BODIES: RefCell<Vec<(String, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Everything that was marked in one env.
#[derive(Debug)]
pub(super) struct Ledger {
    time: Arc<VirtualTime>,
    origin: Timestamp,
    time_passes: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    life: u32,
    effects: Vec<Effect>,
    /// When a body of the run was polled last.
    polled: HashMap<RunId, Duration>,
    overtaken: Option<Overtaken>,
}

/// A body waited for another thread, while time went on without it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaken {
    pub(super) run: RunId,
    pub(super) by: Duration,
}

impl Ledger {
    pub(super) fn new(time: Arc<VirtualTime>) -> Arc<Self> {
        let origin = time.now();
        Arc::new(Self { time, origin, time_passes: AtomicBool::new(false), kept: Mutex::default() })
    }

    /// This is the thread of the env.
    pub(super) fn own_thread(self: &Arc<Self>) {
        ON_ENV_THREAD.set(true);
        self.adopt_thread();
    }

    /// Marks of this thread go here from now on.
    pub(super) fn adopt_thread(self: &Arc<Self>) {
        LEDGER.set(Some(Arc::clone(self)));
    }

    /// Another life of the worker begins.
    pub(super) fn begin_life(&self) {
        self.kept().life += 1;
    }

    pub(super) fn effects(&self) -> Vec<Effect> {
        self.kept().effects.clone()
    }

    /// How long ago the env began, in virtual time.
    pub(super) fn elapsed(&self) -> Duration {
        self.time.now().since(self.origin)
    }

    /// Whether time passes from now on.
    pub(super) fn time_passes(&self, passes: bool) {
        self.time_passes.store(passes, Ordering::SeqCst);
    }

    /// A body of this run is polled, on the env's thread.
    pub(super) fn body_at_work(&self, run: RunId) {
        let at = self.elapsed();
        self.kept().polled.insert(run, at);
    }

    /// Something of this run is woken: if by another thread while time passes, time must not have gone on since its bodies
    /// waited. While time stands still, a test may wake what it likes.
    pub(super) fn run_woken(&self, run: RunId) {
        if ON_ENV_THREAD.get() || !self.time_passes.load(Ordering::SeqCst) {
            return;
        }
        let now = self.elapsed();
        let mut kept = self.kept();
        let waits_since = kept.polled.get(&run).copied().unwrap_or(now);
        if now > waits_since {
            kept.overtaken.get_or_insert(Overtaken { run, by: now - waits_since });
        }
    }

    /// The first body that was overtaken by time.
    pub(super) fn overtaken(&self) -> Option<Overtaken> {
        self.kept().overtaken
    }

    fn mark(&self, name: String, key: String, idempotent: bool) {
        let step = BODIES.with_borrow(|bodies| bodies.last().cloned());
        let at = self.elapsed();
        let mut kept = self.kept();
        let life = kept.life;
        kept.effects.push(Effect { name, key, idempotent, step, life, at });
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This thread is in the body of this step, until as many calls of [`leave_body`].
pub(super) fn enter_body(step_key: &str, attempt: u32) {
    BODIES.with_borrow_mut(|bodies| bodies.push((step_key.to_owned(), attempt)));
}

pub(super) fn leave_body() {
    BODIES.with_borrow_mut(|bodies| drop(bodies.pop()));
}
