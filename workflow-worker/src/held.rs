use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use workflow_engine::model::Claim;
use workflow_sdk::RunId;

use crate::notice_board::{NoticeBoard, Order};

/// The claims that this worker holds: where its drives, its lease thread and its shutdown meet.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<BTreeMap<Claim, Arc<NoticeBoard>>>);

impl Held {
    fn boards(&self) -> MutexGuard<'_, BTreeMap<Claim, Arc<NoticeBoard>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was made. It is held until the returned guard is dropped. An older claim of the same run is lost: whoever works
    /// under it need not find out by its next write.
    pub(crate) fn hold(self: &Arc<Self>, claim: Claim, valid_until: Instant) -> HeldClaim {
        self.order_run(claim.run_id, Order::Lost);
        let board = Arc::new(NoticeBoard::new(valid_until));
        self.boards().insert(claim, Arc::clone(&board));
        HeldClaim { held: Arc::clone(self), claim, board }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.boards().keys().copied().collect()
    }

    /// A claim was renewed.
    pub(crate) fn renewed(&self, claim: Claim, valid_until: Instant) {
        self.for_claim(claim, |board| board.renew(valid_until));
    }

    pub(crate) fn order(&self, claim: Claim, order: Order) {
        self.for_claim(claim, |board| board.overrule(order));
    }

    pub(crate) fn order_run(&self, run: RunId, order: Order) {
        self.for_run(run, |board| board.overrule(order));
    }

    pub(crate) fn order_all(&self, order: Order) {
        let boards: Vec<_> = self.boards().values().cloned().collect();
        boards.iter().for_each(|board| board.overrule(order));
    }

    pub(crate) fn cancel(&self, claim: Claim) {
        self.for_claim(claim, NoticeBoard::request_cancel);
    }

    pub(crate) fn cancel_run(&self, run: RunId) {
        self.for_run(run, NoticeBoard::request_cancel);
    }

    /// Something has happened to the run.
    pub(crate) fn tell_run(&self, run: RunId) {
        self.for_run(run, NoticeBoard::tell_something);
    }

    /// The run has this number of wakes: if its drive knows another, something has happened to it.
    pub(crate) fn tell_wakes(&self, run: RunId, wakes: i64) {
        self.for_run(run, |board| board.tell_wakes(wakes));
    }

    /// The runs that wait for something outside.
    pub(crate) fn listening(&self) -> Vec<RunId> {
        let boards = self.boards();
        let listening = boards.iter().filter(|(_, board)| board.standing().listens.is_some());
        listening.map(|(claim, _)| claim.run_id).collect()
    }

    fn for_claim(&self, claim: Claim, tell: impl FnOnce(&NoticeBoard)) {
        let board = self.boards().get(&claim).cloned();
        if let Some(board) = board {
            tell(&board);
        }
    }

    /// Outside of the lock, as all of these: who is told is woken.
    fn for_run(&self, run: RunId, tell: impl Fn(&NoticeBoard)) {
        let boards: Vec<_> = self.boards().range(claims_of(run)).map(|(_, board)| Arc::clone(board)).collect();
        boards.iter().for_each(|board| tell(board));
    }
}

/// All claims of a run: they stand side by side, so that one of them is found among thousands without a look at the others.
fn claims_of(run: RunId) -> RangeInclusive<Claim> {
    Claim { run_id: run, epoch: i64::MIN }..=Claim { run_id: run, epoch: i64::MAX }
}

/// A claim that is held.
#[derive(Debug)]
pub(crate) struct HeldClaim {
    held: Arc<Held>,
    claim: Claim,
    pub(crate) board: Arc<NoticeBoard>,
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        self.held.boards().remove(&self.claim);
    }
}
