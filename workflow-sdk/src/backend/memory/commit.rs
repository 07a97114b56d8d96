//! One batch. Nothing here can fail, so a batch is applied whole.

use crate::backend::fence::{Asked, Fence, asked_by};
use crate::backend::{BackendError, BackendErrorKind, CancelOutcome, Outcome, Write};
use crate::failpoint::failpoint;
use crate::model::{Claim, RunId, RunStatus, Timestamp};

use super::family::Ended;
use super::tables::Tables;
use super::{attempt, claim, family, finish, rerun, settle, signal, start};

/// The outcomes of a batch while it is applied, by the places of its writes.
#[derive(Debug)]
pub(super) struct Outcomes(Vec<Option<Outcome>>);

impl Outcomes {
    /// Says what became of the write at this place.
    pub(super) fn set(&mut self, place: usize, outcome: Outcome) {
        if let Some(slot) = self.0.get_mut(place) {
            *slot = Some(outcome);
        }
    }

    /// The runs that ended in this batch.
    fn ended(&self, writes: &[Write], expired: Vec<RunId>) -> Ended {
        let mut ended = Ended::default();
        for (write, outcome) in writes.iter().zip(&self.0) {
            match (write, outcome) {
                (Write::End(write), Some(Outcome::Applied)) => ended.by_worker(write),
                (Write::Cancel(id) | Write::Terminate(id), Some(Outcome::Canceled(CancelOutcome::Canceled))) => {
                    ended.by_others(*id);
                }
                _ => {}
            }
        }
        expired.into_iter().for_each(|run| ended.by_others(run));
        ended
    }

    fn complete(self) -> Result<Vec<Outcome>, BackendError> {
        let all: Option<Vec<_>> = self.0.into_iter().collect();
        all.ok_or_else(|| BackendError::new(BackendErrorKind::Other, "commit a batch", "a write was left out"))
    }
}

/// See [`Backend::commit`](crate::backend::Backend::commit). The order is part of the contract: what one kind does, a later
/// kind finds.
pub(super) fn commit(tables: &mut Tables, writes: &[Write], now: Timestamp) -> Result<Vec<Outcome>, BackendError> {
    let mut outcomes = Outcomes(writes.iter().map(|_| None).collect());
    start::apply(tables, writes, now, &mut outcomes);
    rerun::fork(tables, writes, now, &mut outcomes);
    let mut fence = read_fence(tables, &asked_by(writes));
    attempt::apply(tables, writes, now, &fence, &mut outcomes);
    signal::apply(tables, writes, now, &fence, &mut outcomes);
    finish::end(tables, writes, now, &mut fence, &mut outcomes);
    finish::park(tables, writes, now, &mut fence, &mut outcomes);
    finish::continue_as_new(tables, writes, now, &mut fence, &mut outcomes);
    rerun::retry(tables, writes, now, &mut fence, &mut outcomes);
    rerun::change(tables, writes, now, &mut outcomes);
    settle::disown(tables, writes, now, &mut outcomes);
    settle::cancel(tables, writes, now, &mut outcomes);
    settle::terminate(tables, writes, now, &mut outcomes);
    let expired = settle::expire(tables, writes, now, &mut outcomes);
    family::tell(tables, outcomes.ended(writes, expired), now);
    claim::apply(tables, writes, now, &mut outcomes);
    failpoint("backend.in_transaction");
    outcomes.complete()
}

/// Reads the runs that decide about a batch.
pub(super) fn read_fence(tables: &Tables, asked: &Asked) -> Fence {
    let facts = asked.iter().filter_map(|(id, epoch)| {
        let fact = tables.run(*id).map(|run| (run.epoch, run.status));
        let holds =
            fact.is_some() && fact.map(|(of, _)| of) == *epoch && fact.map(|(_, it)| it) == Some(RunStatus::Running);
        (!holds).then_some(Ok::<_, std::convert::Infallible>((*id, fact)))
    });
    match Fence::of(facts) {
        Ok(fence) => fence,
        Err(never) => match never {},
    }
}

/// Whether this write is the one that ends its claim.
pub(super) fn let_go(
    fence: &mut Fence,
    claim: Claim,
    status: RunStatus,
    place: usize,
    outcomes: &mut Outcomes,
) -> bool {
    let refusal = fence.refusal(claim);
    let holds = refusal.is_none();
    if holds {
        fence.ended(claim, status);
    }
    outcomes.set(place, refusal.unwrap_or(Outcome::Applied));
    holds
}
