use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bell::Bell;

/// What a drive is told from outside. The later ones overrule the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Go on.
    Go,
    /// Begin no more bodies; give the run back when those that run have ended.
    Drain,
    /// Give the run back now.
    Abandon,
    /// The claim is lost: write nothing more.
    Lost,
}

/// What a drive knows of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) order: Order,
    /// Somebody asked to cancel the run.
    pub(crate) cancel_requested: bool,
    /// Until when nobody else can hold the run, as far as this process knows.
    pub(crate) valid_until: Instant,
    /// How often the drive was told that something happened outside.
    pub(crate) told: u64,
    /// The run's `wakes` as the drive knows it, while the run waits for something outside.
    pub(crate) listens: Option<i64>,
}

impl Standing {
    /// Whether nobody else can hold the run.
    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until
    }
}

/// Where one drive is told of what concerns its claim, and woken by that and by its own bodies.
#[derive(Debug)]
pub(crate) struct NoticeBoard {
    standing: Mutex<Standing>,
    /// The drive listens to it.
    pub(crate) bell: Bell,
    renewed: Notify,
}

impl NoticeBoard {
    pub(crate) fn new(valid_until: Instant) -> Self {
        let standing = Standing { order: Order::Go, cancel_requested: false, valid_until, told: 0, listens: None };
        Self { standing: Mutex::new(standing), bell: Bell::default(), renewed: Notify::new() }
    }

    pub(crate) fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody else can hold the run.
    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        self.standing().is_valid_at(now)
    }

    /// Returns when nobody else can hold the run: after a renewal, if somebody might.
    pub(crate) async fn valid(&self) {
        loop {
            // Before the look: from here on no renewal is missed.
            let renewed = self.renewed.notified();
            if self.is_valid_at(Instant::now()) {
                return;
            }
            renewed.await;
        }
    }

    pub(crate) fn renew(&self, valid_until: Instant) {
        self.tell(|standing| {
            standing.valid_until = valid_until;
            true
        });
        self.renewed.notify_waiters();
    }

    pub(crate) fn overrule(&self, order: Order) {
        self.tell(|standing| {
            let overruled = order > standing.order;
            standing.order = order.max(standing.order);
            overruled
        });
    }

    pub(crate) fn request_cancel(&self) {
        self.tell(|standing| !std::mem::replace(&mut standing.cancel_requested, true));
    }

    /// Something has happened to the run.
    pub(crate) fn tell_something(&self) {
        self.tell(|standing| {
            standing.told += 1;
            true
        });
    }

    /// The run has this number of wakes: if its drive knows another, something has happened to it.
    pub(crate) fn tell_wakes(&self, wakes: i64) {
        self.tell(|standing| {
            let news = standing.listens.is_some_and(|known| known != wakes);
            standing.told += u64::from(news);
            news
        });
    }

    /// The run waits for something outside, and its drive knows this number of its `wakes`; `None`: it waits for nothing.
    pub(crate) fn listen(&self, wakes: Option<i64>) {
        self.tell(|standing| {
            standing.listens = wakes;
            false
        });
    }

    /// Wakes the drive if this was news.
    fn tell(&self, change: impl FnOnce(&mut Standing) -> bool) {
        let news = change(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
        if news {
            self.bell.ring();
        }
    }
}
