//! The state of one claim, as its drive and the rest of the worker share it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pulse::{AwakeClock, Pulse};
use crate::wakeup::Wakeup;

/// An instruction to a drive. A later variant overrules an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Directive {
    /// Go on.
    Continue,
    /// Begin no more bodies. Give the run back when the running bodies have ended.
    Drain,
    /// Give the run back now.
    Abandon,
    /// The claim is lost: write nothing more.
    Lost,
}

/// A copy of the state of a claim at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) directive: Directive,
    /// A client asked to cancel the run.
    pub(crate) cancel_requested: bool,
    /// Until this instant no other worker can hold the run, as far as this process knows.
    pub(crate) valid_until: Instant,
    /// Rises with each external event of the run.
    pub(crate) wake_seq: u64,
    /// The run's `wakes` as the drive knows it, while the run waits for external events.
    pub(crate) watched_wakes: Option<i64>,
}

impl Snapshot {
    /// Whether no other worker can hold the run.
    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until
    }
}

/// The state of one claim. A change that concerns the drive wakes it.
#[derive(Debug)]
pub(crate) struct ClaimState {
    current: Mutex<Snapshot>,
    wakeup: Wakeup,
    renewed: Notify,
    /// Since when the workflow is being polled.
    polling: Pulse,
}

impl ClaimState {
    pub(crate) fn new(valid_until: Instant, awake: AwakeClock) -> Self {
        let current = Snapshot {
            directive: Directive::Continue,
            cancel_requested: false,
            valid_until,
            wake_seq: 0,
            watched_wakes: None,
        };
        Self {
            current: Mutex::new(current),
            wakeup: Wakeup::default(),
            renewed: Notify::new(),
            polling: Pulse::new(awake),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no other worker can hold the run.
    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        self.snapshot().is_valid_at(now)
    }

    /// Returns when no other worker can hold the run: at once, or after a renewal of the lease.
    pub(crate) async fn valid(&self) {
        loop {
            // Registered before the lease is checked, so that no renewal in between is missed.
            let renewed = self.renewed.notified();
            if self.is_valid_at(Instant::now()) {
                return;
            }
            renewed.await;
        }
    }

    /// Takes note that the workflow is polled, until the guard is dropped.
    pub(crate) fn begin_poll(&self) -> PollGuard<'_> {
        self.polling.beat();
        PollGuard(&self.polling)
    }

    /// Returns for how long the present poll of the workflow has lasted.
    pub(crate) fn polled_for(&self) -> Option<Duration> {
        self.polling.age()
    }

    /// Wakes the drive.
    pub(crate) fn notify(&self) {
        self.wakeup.notify();
    }

    /// Returns after a [`notify`](Self::notify) or a change that concerns the drive. Only the drive
    /// waits for it.
    pub(crate) async fn notified(&self) {
        self.wakeup.notified().await;
    }

    pub(crate) fn renew(&self, valid_until: Instant) {
        self.change(|state| {
            state.valid_until = valid_until;
            true
        });
        self.renewed.notify_waiters();
    }

    pub(crate) fn direct(&self, directive: Directive) {
        self.change(|state| {
            let overrules = directive > state.directive;
            state.directive = directive.max(state.directive);
            overrules
        });
    }

    pub(crate) fn request_cancel(&self) {
        self.change(|state| !std::mem::replace(&mut state.cancel_requested, true));
    }

    /// Takes note that the run has an external event.
    pub(crate) fn wake(&self) {
        self.change(|state| {
            state.wake_seq += 1;
            true
        });
    }

    /// Takes note of the run's present `wakes`. If the drive knows another number, the run has an
    /// external event.
    pub(crate) fn update_wakes(&self, wakes: i64) {
        self.change(|state| {
            let is_news = state.watched_wakes.is_some_and(|known| known != wakes);
            state.wake_seq += u64::from(is_news);
            is_news
        });
    }

    /// Sets the run's `wakes` as the drive knows it; `None` if the run waits for no external event.
    pub(crate) fn watch_wakes(&self, wakes: Option<i64>) {
        self.change(|state| {
            state.watched_wakes = wakes;
            false
        });
    }

    /// Changes the state, and wakes the drive if the change says that it concerns the drive.
    fn change(&self, change: impl FnOnce(&mut Snapshot) -> bool) {
        let concerns_drive = change(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner));
        if concerns_drive {
            self.wakeup.notify();
        }
    }
}

/// Marks the poll of a workflow while it lasts.
#[must_use]
pub(crate) struct PollGuard<'a>(&'a Pulse);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
