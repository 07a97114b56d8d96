//! One batch. Nothing here can fail, so a batch is applied whole.

use workflow_engine::faults::failpoint;
use workflow_engine::model::{RunStatus, Timestamp};
use workflow_engine::store::Outcomes;
use workflow_engine::store::{Asked, Fence, asked_by};
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::tables::Tables;
use super::{attempt, claim, family, finish, rerun, settle, signal, start};

/// See [`Store::commit`](workflow_engine::store::Store::commit). The order is part of the contract: what one kind does, a later
/// kind finds.
pub(super) fn commit(tables: &mut Tables, writes: &[Write], now: Timestamp) -> Result<Vec<Outcome>, DatabaseError> {
    let mut outcomes = Outcomes::of(writes);
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
    failpoint("store.in_transaction");
    Ok(outcomes.complete()?)
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
