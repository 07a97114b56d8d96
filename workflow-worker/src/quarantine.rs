//! Keeps a run that kills its worker from taking other runs with it.
//!
//! A death counts a crash for every run that the worker held, because nothing tells which of them
//! was the cause. The next outcome or park of a run clears it. Until then, a run begins among fewer
//! runs after each death, so that fewer and fewer share the next one:
//!
//! | crashes | the run begins |
//! |---------|----------------|
//! | 0 or 1  | like any other |
//! | 2       | in waves: 32 such runs, a second later 64, then 128 and so on |
//! | 3       | in waves: 8 such runs, then 16, 32 and so on |
//! | 4       | in waves: 2 such runs, then 4, 8 and so on |
//! | 5 or more | alone in its process, for 10 seconds, and twice as long after each further crash |
//!
//! The waves double, so hundreds of runs begin within seconds if none of them kills the worker. A
//! run of a later wave waits in the database until then, where no death counts for it.
//!
//! The run is blamed only for a death while it was driven alone: a lone crash. So no other run is
//! ever blamed, whatever happens beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use workflow_engine::model::Claim;
use workflow_engine::store::ClaimedRun;

/// With this many crashes a run is driven alone.
const LONE_CRASHES: i64 = 5;

/// For each number of crashes, how many runs begin in the first wave.
const FIRST_WAVES: [(i64, usize); 3] = [(2, 32), (3, 8), (4, 2)];

/// A run may come back this much before or after the time of its wave, because clocks differ and
/// claims take time.
const EARLY: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_millis(800);

/// How long a run is driven alone at first.
const LONE_TIME: Duration = Duration::from_secs(10);

/// The most doublings of [`LONE_TIME`].
const MOST_DOUBLINGS: u32 = 4;

/// How long a run waits for the other runs of its process to end or to be given back.
const LONE_PATIENCE: Duration = Duration::from_secs(60);

/// How long a run that has waited for that in vain is left to other workers. The process claims
/// nothing while it waits, so it takes at most half of its time for that.
pub(crate) const LONE_RETRY_DELAY: Duration = LONE_PATIENCE;

/// The shortest time between two warnings of runs that are held back.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How long a run that may not be driven now waits in the database: once for each wave until its
/// own.
pub(crate) const QUARANTINE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Decides which runs this process may drive beside each other. All workers of a process share one,
/// because a death takes all of them.
#[derive(Debug)]
pub(crate) struct Quarantine {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    /// The number of runs that the process drives or is giving back.
    present: usize,
    /// The waves of each of [`FIRST_WAVES`].
    waves: [Waves; FIRST_WAVES.len()],
    /// The run that is driven alone, or waits to be.
    alone: Option<Claim>,
}

/// The waves in which runs with one number of crashes begin. Each has room for twice as many as the
/// one before, until all runs that were put off have come back.
#[derive(Debug)]
struct Waves {
    /// The room of the first wave.
    first: usize,
    /// When the first wave began.
    begun_at: Option<Instant>,
    /// The number of the last wave, counted from 0.
    number: u32,
    /// The room of the last wave, and how much of it is left.
    room: usize,
    left: usize,
    /// How many runs were put off to later waves since the last one began.
    put_off: usize,
    /// The latest time at which a run that was put off is due again.
    awaited_until: Option<Instant>,
}

/// The answer to whether a run may be driven now.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(QuarantineSlot),
    /// The run must be driven alone, after the others have left.
    Alone(LoneTurn),
    /// The run may be driven after this time. Keep the slot until the run is given back, because a
    /// run that is to be driven alone waits for that.
    Later(QuarantineSlot, Duration),
}

/// An [`Admission`] before it is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Begin,
    Alone,
    Later(Duration),
}

impl Quarantine {
    /// Returns the quarantine of this process.
    pub(crate) fn of_process() -> Arc<Self> {
        static PROCESS: LazyLock<Arc<Quarantine>> = LazyLock::new(|| Arc::new(Quarantine::new()));
        Arc::clone(&PROCESS)
    }

    fn new() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a claimed run.
    pub(crate) fn admit(self: &Arc<Self>, run: &ClaimedRun) -> Admission {
        let decision = self.state().decide(run.claim, run.crashes, Instant::now());
        match decision {
            Decision::Begin => Admission::Admitted(self.slot(false)),
            Decision::Later(delay) => Admission::Later(self.slot(false), delay),
            Decision::Alone => {
                self.changed.send_replace(());
                Admission::Alone(LoneTurn { quarantine: Arc::clone(self), is_over: false })
            }
        }
    }

    /// Returns the slot of a run that is counted as present.
    fn slot(self: &Arc<Self>, is_alone: bool) -> QuarantineSlot {
        QuarantineSlot {
            quarantine: Arc::clone(self),
            is_alone: AtomicBool::new(is_alone),
            is_ending: AtomicBool::new(!is_alone),
        }
    }

    /// Waits until a run must be driven alone, and returns its claim.
    pub(crate) async fn closed(&self) -> Claim {
        self.wait_for(|state| state.alone).await
    }

    /// Waits until no run is driven alone or waits to be.
    pub(crate) async fn open(&self) {
        self.wait_for(|state| state.alone.is_none().then_some(())).await;
    }

    /// Waits until this claim is neither driven alone nor waits to be.
    pub(crate) async fn open_after(&self, suspect: Claim) {
        self.wait_for(|state| (state.alone != Some(suspect)).then_some(())).await;
    }

    async fn wait_for<T>(&self, fact: impl Fn(&mut State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            let found = fact(&mut self.state());
            if let Some(found) = found {
                return found;
            }
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }

    fn end_isolation(&self) {
        self.state().alone = None;
        self.changed.send_replace(());
    }
}

impl Default for State {
    fn default() -> Self {
        Self { present: 0, waves: FIRST_WAVES.map(|(_, first)| Waves::new(first)), alone: None }
    }
}

impl State {
    /// Decides about a run with this number of crashes. The run is present from now on, unless it
    /// must be driven alone.
    fn decide(&mut self, claim: Claim, crashes: i64, now: Instant) -> Decision {
        let decision = if self.alone.is_some() {
            Decision::Later(QUARANTINE_RETRY_DELAY)
        } else if crashes >= LONE_CRASHES {
            self.alone = Some(claim);
            return Decision::Alone;
        } else {
            let place = FIRST_WAVES.iter().position(|(of, _)| *of == crashes);
            let delay = place.and_then(|place| self.waves[place].join(now));
            delay.map_or(Decision::Begin, Decision::Later)
        };
        self.present += 1;
        decision
    }

    /// Takes note that the run that must be driven alone begins, if no other run is present.
    fn begin_alone(&mut self) -> bool {
        let is_alone = self.present == 0;
        self.present += usize::from(is_alone);
        is_alone
    }

    /// Takes note that a run is not present any more.
    const fn leave(&mut self) {
        self.present = self.present.saturating_sub(1);
    }
}

impl Waves {
    const fn new(first: usize) -> Self {
        Self { first, begun_at: None, number: 0, room: 0, left: 0, put_off: 0, awaited_until: None }
    }

    /// Lets a run begin with the wave of this moment if that has room. Otherwise returns how long
    /// the run waits for its own wave.
    fn join(&mut self, now: Instant) -> Option<Duration> {
        let is_awaited = self.awaited_until.is_some_and(|until| now < until + LATE);
        let since = self.begun_at.and_then(|begun| now.checked_duration_since(begun));
        match since.map(wave_at) {
            Some(number) if number == self.number => {}
            Some(number) if is_awaited => {
                let doubled = 2_usize.saturating_pow(number.saturating_sub(self.number));
                self.begin(number, self.room.saturating_mul(doubled));
            }
            _ => {
                self.begun_at = Some(now);
                self.begin(0, self.first);
            }
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        let (mut delay, mut room, mut before) = (QUARANTINE_RETRY_DELAY, self.room.saturating_mul(2), self.put_off);
        self.put_off += 1;
        while before >= room {
            before -= room;
            room = room.saturating_mul(2);
            delay += QUARANTINE_RETRY_DELAY;
        }
        self.awaited_until = self.awaited_until.max(Some(now + delay));
        Some(delay)
    }

    const fn begin(&mut self, number: u32, room: usize) {
        self.number = number;
        self.room = room;
        self.left = room;
        self.put_off = 0;
    }
}

/// Returns the number of the wave that runs join at the time `since` after the first wave began.
fn wave_at(since: Duration) -> u32 {
    let number = (since + EARLY).as_millis() / QUARANTINE_RETRY_DELAY.as_millis();
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns how long a run with this number of crashes is driven alone.
pub(crate) fn lone_time(crashes: i64) -> Duration {
    let doublings = u32::try_from(crashes - LONE_CRASHES).unwrap_or(0).min(MOST_DOUBLINGS);
    LONE_TIME * 2_u32.pow(doublings)
}

/// Limits the warnings of runs that a worker holds back, because after a mass death there are many.
#[derive(Debug, Default)]
pub(crate) struct HoldWarnings {
    last: Mutex<Option<Instant>>,
}

impl HoldWarnings {
    /// Returns `true` if the log needs another warning, which the caller then writes.
    pub(crate) fn take_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// The turn of a run that must be driven alone. Dropping it lets other runs begin.
#[derive(Debug)]
#[must_use]
pub(crate) struct LoneTurn {
    quarantine: Arc<Quarantine>,
    is_over: bool,
}

impl LoneTurn {
    /// Waits until the process drives no other run and has given back the rest. Returns `None` if
    /// that takes too long.
    pub(crate) async fn wait(mut self) -> Option<QuarantineSlot> {
        let is_alone = self.quarantine.wait_for(|state| state.begin_alone().then_some(()));
        tokio::time::timeout(LONE_PATIENCE, is_alone).await.ok()?;
        self.is_over = true;
        Some(self.quarantine.slot(true))
    }
}

impl Drop for LoneTurn {
    fn drop(&mut self) {
        if !self.is_over {
            self.quarantine.end_isolation();
        }
    }
}

/// A run's presence in the process, usually the right to drive it. Dropping it says that the run
/// has left.
#[derive(Debug)]
#[must_use]
pub(crate) struct QuarantineSlot {
    quarantine: Arc<Quarantine>,
    /// The run is driven alone.
    is_alone: AtomicBool,
    /// The write that ends the isolation was sent.
    is_ending: AtomicBool,
}

impl QuarantineSlot {
    /// Returns `true` to the first caller, which writes the end of the isolation. An end by time
    /// must not overwrite the cleared crashes.
    pub(crate) fn take_end(&self) -> bool {
        !self.is_ending.swap(true, Ordering::Relaxed)
    }

    /// Lets other runs begin beside this one, if it was driven alone.
    pub(crate) fn end_isolation(&self) {
        if self.is_alone.swap(false, Ordering::Relaxed) {
            self.quarantine.end_isolation();
        }
    }
}

impl Drop for QuarantineSlot {
    fn drop(&mut self) {
        let is_awaited = {
            let mut state = self.quarantine.state();
            state.leave();
            state.alone.is_some()
        };
        self.end_isolation();
        if is_awaited {
            self.quarantine.changed.send_replace(());
        }
    }
}

#[cfg(test)]
#[path = "quarantine_tests.rs"]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
