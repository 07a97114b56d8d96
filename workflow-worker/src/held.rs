use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use workflow_sdk::RunId;
use workflow_sdk::engine::Claim;

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
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid_at(Instant::now())
    }

    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until
    }
}

/// The claims that this worker holds: where its drives, its lease thread and its shutdown meet.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<BTreeMap<Claim, watch::Sender<Standing>>>);

impl Held {
    fn claims_by_standing(&self) -> MutexGuard<'_, BTreeMap<Claim, watch::Sender<Standing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was made. It is held until the returned guard is dropped. An older claim of the same run is lost: whoever works
    /// under it need not find out by its next write.
    pub(crate) fn hold(self: &Arc<Self>, claim: Claim, valid_until: Instant) -> HeldClaim {
        self.for_run(claim.run_id, |standing| overrule(standing, Order::Lost));
        let standing = Standing { order: Order::Go, cancel_requested: false, valid_until, told: 0, listens: None };
        let (sender, standing) = watch::channel(standing);
        self.claims_by_standing().insert(claim, sender);
        HeldClaim { held: Arc::clone(self), claim, standing }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.claims_by_standing().keys().copied().collect()
    }

    /// A claim was renewed.
    pub(crate) fn renewed(&self, claim: Claim, valid_until: Instant) {
        if let Some(standing) = self.claims_by_standing().get(&claim) {
            standing.send_modify(|standing| standing.valid_until = valid_until);
        }
    }

    pub(crate) fn order(&self, claim: Claim, order: Order) {
        if let Some(standing) = self.claims_by_standing().get(&claim) {
            overrule(standing, order);
        }
    }

    pub(crate) fn order_run(&self, run: RunId, order: Order) {
        self.for_run(run, |standing| overrule(standing, order));
    }

    pub(crate) fn cancel(&self, claim: Claim) {
        if let Some(standing) = self.claims_by_standing().get(&claim) {
            request_cancel(standing);
        }
    }

    pub(crate) fn cancel_run(&self, run: RunId) {
        self.for_run(run, request_cancel);
    }

    fn for_run(&self, run: RunId, tell: impl Fn(&watch::Sender<Standing>)) {
        self.claims_by_standing().range(claims_of(run)).for_each(|(_, standing)| tell(standing));
    }

    /// Something has happened to the run.
    pub(crate) fn tell_run(&self, run: RunId) {
        for standing in self.standings_of(run) {
            standing.send_modify(|standing| standing.told += 1);
        }
    }

    /// The run has this number of wakes: if its drive knows another, something has happened to it.
    pub(crate) fn tell_wakes(&self, run: RunId, wakes: i64) {
        for standing in self.standings_of(run) {
            standing.send_if_modified(|standing| {
                let news = standing.listens.is_some_and(|known| known != wakes);
                standing.told += u64::from(news);
                news
            });
        }
    }

    /// The runs that wait for something outside.
    pub(crate) fn listening(&self) -> Vec<RunId> {
        let claims = self.claims_by_standing();
        let listening = claims.iter().filter(|(_, standing)| standing.borrow().listens.is_some());
        listening.map(|(claim, _)| claim.run_id).collect()
    }

    fn standings_of(&self, run: RunId) -> Vec<watch::Sender<Standing>> {
        self.claims_by_standing().range(claims_of(run)).map(|(_, standing)| standing.clone()).collect()
    }

    pub(crate) fn order_all(&self, order: Order) {
        self.claims_by_standing().values().for_each(|standing| overrule(standing, order));
    }
}

/// All claims of a run: they stand side by side, so that one of them is found among thousands without a look at the others.
fn claims_of(run: RunId) -> RangeInclusive<Claim> {
    Claim { run_id: run, epoch: i64::MIN }..=Claim { run_id: run, epoch: i64::MAX }
}

fn request_cancel(standing: &watch::Sender<Standing>) {
    standing.send_if_modified(|standing| !std::mem::replace(&mut standing.cancel_requested, true));
}

fn overrule(standing: &watch::Sender<Standing>, order: Order) {
    standing.send_if_modified(|standing| {
        let overruled = order > standing.order;
        standing.order = standing.order.max(order);
        overruled
    });
}

/// A claim that is held.
#[derive(Debug)]
pub(crate) struct HeldClaim {
    held: Arc<Held>,
    claim: Claim,
    pub(crate) standing: watch::Receiver<Standing>,
}

impl HeldClaim {
    pub(crate) fn order(&self) -> Order {
        self.standing.borrow().order
    }

    /// All that the drive knows of it.
    pub(crate) fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    /// The run waits for something outside, and knows this number of its `wakes`; `None`: it waits for nothing.
    pub(crate) fn listen(&self, wakes: Option<i64>) {
        if self.standing.borrow().listens == wakes {
            return;
        }
        if let Some(standing) = self.held.claims_by_standing().get(&self.claim) {
            standing.send_if_modified(|standing| {
                standing.listens = wakes;
                false
            });
        }
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        self.held.claims_by_standing().remove(&self.claim);
    }
}
