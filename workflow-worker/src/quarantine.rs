//! Keeps a run that kills its worker from taking other runs with it.
//!
//! A death counts a crash for every run that the worker held, because nothing tells which of them
//! was the cause. The next outcome or park of a run clears it. Until then, a run is driven among
//! fewer runs after each death, so that fewer and fewer share the next one:
//!
//! | crashes | the run is driven |
//! |---------|-------------------|
//! | 0 or 1  | like any other |
//! | 2       | if at most 32 such runs began in the last second |
//! | 3       | if at most 4 such runs began in the last 5 seconds |
//! | 4 or more | alone in its process, for 10 seconds, and twice as long after each further crash |
//!
//! The run is blamed only for a death while it was driven alone: a lone crash. So no other run is
//! ever blamed, whatever happens beside it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use workflow_engine::model::Claim;
use workflow_engine::store::ClaimedRun;

/// With this many crashes a run is driven alone.
const LONE_CRASHES: i64 = 4;

/// How many runs with so many crashes may begin within a time.
const RATES: [(i64, usize, Duration); 2] = [(2, 32, Duration::from_secs(1)), (3, 4, Duration::from_secs(5))];

/// How long a run is driven alone at first.
const LONE_TIME: Duration = Duration::from_secs(10);

/// How often [`LONE_TIME`] is doubled at most.
const MOST_DOUBLINGS: u32 = 4;

/// How long a run waits for the other runs of its process to end or to be given back.
const LONE_PATIENCE: Duration = Duration::from_secs(60);

/// The shortest time between two warnings of runs that are held back.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How long a run that may not be driven now waits in the database.
pub(crate) const QUARANTINE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Decides which runs this process may drive beside each other. All workers of a process share one,
/// because a death takes all of them.
#[derive(Debug)]
pub(crate) struct Quarantine {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of runs that the process drives.
    driven: usize,
    /// When runs of each of [`RATES`] began.
    begun: [VecDeque<Instant>; RATES.len()],
    /// The run that is driven alone, or waits for that.
    alone: Option<Claim>,
}

/// The answer to whether a run may be driven now.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(QuarantineSlot),
    /// The run must be driven alone, after the others have left.
    Alone(LoneTurn),
    /// Not now.
    Full,
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
        let mut state = self.state();
        if state.alone.is_some() {
            return Admission::Full;
        }
        if run.crashes >= LONE_CRASHES {
            state.alone = Some(run.claim);
            drop(state);
            self.changed.send_replace(());
            return Admission::Alone(LoneTurn { quarantine: Arc::clone(self), is_over: false });
        }
        if !state.begin(run.crashes, Instant::now()) {
            return Admission::Full;
        }
        Admission::Admitted(self.slot(&mut state, false))
    }

    fn slot(self: &Arc<Self>, state: &mut State, is_alone: bool) -> QuarantineSlot {
        state.driven += 1;
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

    /// Waits until no run is driven alone or waits for that.
    pub(crate) async fn open(&self) {
        self.wait_for(|state| state.alone.is_none().then_some(())).await;
    }

    async fn wait_for<T>(&self, fact: impl Fn(&State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            let found = fact(&self.state());
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

impl State {
    /// Takes note that a run with so many crashes begins, unless too many have begun.
    fn begin(&mut self, crashes: i64, now: Instant) -> bool {
        let Some(place) = RATES.iter().position(|(of, ..)| *of == crashes) else { return true };
        let ((_, most, time), begun) = (RATES[place], &mut self.begun[place]);
        while begun.front().is_some_and(|first| now.duration_since(*first) >= time) {
            begun.pop_front();
        }
        let admitted = begun.len() < most;
        if admitted {
            begun.push_back(now);
        }
        admitted
    }
}

/// Returns how long a run with so many crashes is driven alone.
pub(crate) fn lone_time(crashes: i64) -> Duration {
    let doublings = u32::try_from(crashes - LONE_CRASHES).unwrap_or(0).min(MOST_DOUBLINGS);
    LONE_TIME * 2_u32.pow(doublings)
}

/// Limits the warnings of runs that a worker holds back: each of them is held back once per second,
/// and after a mass death there are many.
#[derive(Debug, Default)]
pub(crate) struct HoldWarnings {
    last: Mutex<Option<Instant>>,
}

impl HoldWarnings {
    /// Whether the log needs another warning. The caller then writes it.
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
    /// Waits until the process drives no other run. Returns `None` if that takes too long.
    pub(crate) async fn wait(mut self) -> Option<QuarantineSlot> {
        let is_alone = self.quarantine.wait_for(|state| (state.driven == 0).then_some(()));
        tokio::time::timeout(LONE_PATIENCE, is_alone).await.ok()?;
        self.is_over = true;
        let mut state = self.quarantine.state();
        // Nothing was admitted meanwhile.
        Some(self.quarantine.slot(&mut state, true))
    }
}

impl Drop for LoneTurn {
    fn drop(&mut self) {
        if !self.is_over {
            self.quarantine.end_isolation();
        }
    }
}

/// The right to drive a run. Dropping it ends the drive.
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
    /// Whether the caller is the first that writes the end of the isolation. An end by time must
    /// not overwrite the cleared crashes.
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
            state.driven = state.driven.saturating_sub(1);
            state.alone.is_some()
        };
        self.end_isolation();
        if is_awaited {
            self.quarantine.changed.send_replace(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::FutureExt;
    use workflow_engine::model::{Lane, Timestamp};

    use super::*;

    fn run(crashes: i64) -> ClaimedRun {
        ClaimedRun {
            gate: None,
            claim: Claim { run_id: workflow_sdk::RunId::generate(), epoch: 1 },
            lane: Lane { queue: "default".into(), workflow: "fragile".into(), version: "1".into() },
            input: "null".into(),
            wakes: 0,
            crashes,
            lone_crashes: 0,
            attempt: 1,
            generation: 0,
            depth: 0,
            trace: None,
            parent_run_id: None,
            deadline_at: None,
            cancel_requested: false,
            created_at: Timestamp::from_micros(0),
            started_at: Timestamp::from_micros(0),
            lease_until: Timestamp::from_micros(0),
            error: None,
            unreadable: None,
        }
    }

    fn quarantine() -> Arc<Quarantine> {
        Arc::new(Quarantine::new())
    }

    fn admitted(quarantine: &Arc<Quarantine>, crashes: i64) -> Option<QuarantineSlot> {
        match quarantine.admit(&run(crashes)) {
            Admission::Admitted(slot) => Some(slot),
            Admission::Alone(_) | Admission::Full => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_runs_begin_together_after_each_death() {
        let quarantine = quarantine();
        let admitted = |crashes| (0..100).filter_map(|_| admitted(&quarantine, crashes)).count();
        assert_eq!((admitted(0), admitted(1), admitted(2), admitted(3)), (100, 100, 32, 4));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((admitted(2), admitted(3)), (32, 0), "as many begin in the next second");
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(admitted(3), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_with_four_crashes_waits_until_it_is_alone_and_keeps_others_out() {
        let quarantine = quarantine();
        let other = admitted(&quarantine, 0).unwrap();
        let suspect = run(4);
        let Admission::Alone(turn) = quarantine.admit(&suspect) else { panic!("alone") };
        assert_eq!(quarantine.closed().now_or_never(), Some(suspect.claim));
        assert!(admitted(&quarantine, 0).is_none() && admitted(&quarantine, 4).is_none());
        let mut turn = Box::pin(turn.wait());
        assert!(futures::poll!(&mut turn).is_pending());
        drop(other);
        let slot = turn.await.unwrap();
        assert!(admitted(&quarantine, 0).is_none());
        assert!(slot.take_end() && !slot.take_end(), "one caller writes the end");
        assert!(quarantine.open().now_or_never().is_none());
        slot.end_isolation();
        assert!(admitted(&quarantine, 0).is_some(), "its time alone is over");
        drop(slot);
        assert_eq!(quarantine.state().driven, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_never_alone_lets_others_begin_again() {
        let quarantine = quarantine();
        let _other = admitted(&quarantine, 0).unwrap();
        let Admission::Alone(turn) = quarantine.admit(&run(4)) else { panic!("alone") };
        assert!(turn.wait().await.is_none());
        assert!(admitted(&quarantine, 0).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_are_held_back_are_warned_of_once_per_minute() {
        let warnings = HoldWarnings::default();
        assert!(warnings.take_due() && !warnings.take_due());
        tokio::time::advance(WARNING_INTERVAL).await;
        assert!(warnings.take_due() && !warnings.take_due());
    }

    #[test]
    fn the_time_alone_grows_with_the_crashes() {
        let seconds = [4, 5, 6, 7, 8, 9].map(|crashes| lone_time(crashes).as_secs());
        assert_eq!(seconds, [10, 20, 40, 80, 160, 160]);
    }
}
