//! Bulk operations of a batch.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{BulkId, BulkProgress, BulkRecord, BulkStatus, RunId, Timestamp};
use crate::store::batch_target::BatchTarget;
use crate::store::bulk::{BulkChunk, BulkWrite, count_outcomes};
use crate::store::outcomes::Outcomes;
use crate::store::{Outcome, Write};

/// The bulk operations of a batch: the outcomes of their writes, and the chunks that are applied.
#[derive(Default)]
pub(super) struct Bulks<'w> {
    outcomes: Vec<(usize, Outcome)>,
    /// The chunks whose claims hold, each with the index of its write and the row.
    chunks: Vec<(usize, &'w BulkChunk, BulkProgress)>,
    now: Option<Timestamp>,
}

impl<'w> Bulks<'w> {
    /// Locks the operations of these writes, and decides which chunks are applied. This comes
    /// before all else, so that no batch waits for an operation while it holds a run.
    pub(super) async fn open<T: BatchTarget>(target: &mut T, writes: &'w [Write]) -> Result<Self, T::Error> {
        let bulks = writes.iter().enumerate().filter_map(|(index, write)| match write.inner() {
            Write::Bulk(write) => Some((index, &**write)),
            _ => None,
        });
        let mut bulks: Vec<(usize, &BulkWrite)> = bulks.collect();
        // Chunks come last, so that they find a stop or a claim of the same batch.
        bulks.sort_by_key(|(_, write)| matches!(write, BulkWrite::Advance(_)));
        if bulks.is_empty() {
            return Ok(Self::default());
        }
        let ids: BTreeSet<BulkId> = bulks.iter().filter_map(|(_, write)| id(write)).collect();
        let (now, mut rows) = target.lock_bulks(&ids).await?;
        let mut opened = Self { now: Some(now), ..Self::default() };
        for (index, write) in bulks {
            let outcome = match write {
                BulkWrite::Order(order) if rows.contains_key(&order.id) => Outcome::Duplicate,
                BulkWrite::Order(order) => {
                    let row = BulkRecord::new(order.clone(), now);
                    target.insert_bulk(&row).await?;
                    rows.insert(order.id, row);
                    Outcome::Applied
                }
                BulkWrite::Stop(id) => match rows.get_mut(id).map(|row| &mut row.progress) {
                    None => Outcome::Lost,
                    Some(progress) if progress.status.has_ended() => Outcome::Duplicate,
                    Some(progress) => {
                        (progress.status, progress.ended_at) = (BulkStatus::Stopped, Some(now));
                        target.update_bulk(*id, progress).await?;
                        Outcome::Applied
                    }
                },
                BulkWrite::Claim { worker, lease } => {
                    let mut due = target.find_due_bulk().await?;
                    if let Some(row) = &mut due {
                        let progress = &mut row.progress;
                        progress.epoch += 1;
                        progress.worker = Some(*worker);
                        progress.available_at = now + *lease;
                        target.update_bulk(row.order.id, progress).await?;
                        rows.insert(row.order.id, row.clone());
                    }
                    Outcome::BulkClaimed(due.map(Box::new))
                }
                BulkWrite::Advance(chunk) => match admit(rows.get(&chunk.claim.id), chunk) {
                    Err(refusal) => refusal,
                    Ok(progress) => {
                        // A second chunk of the same place finds that the first one has moved it.
                        let row = rows.get_mut(&chunk.claim.id);
                        row.into_iter().for_each(|row| row.progress.cursor = chunk.cursor);
                        opened.chunks.push((index, chunk, progress));
                        Outcome::Applied
                    }
                },
            };
            opened.outcomes.push((index, outcome));
        }
        Ok(opened)
    }

    /// Returns the writes of the chunks that are applied.
    pub(super) fn writes(&self) -> impl Iterator<Item = &'w Write> {
        self.chunks.iter().flat_map(|(_, chunk, _)| chunk.writes.iter().map(|(_, write)| write))
    }

    /// Sets the outcomes that are known. Those of chunks are set again by [`Bulks::close`].
    pub(super) fn set_outcomes(&mut self, outcomes: &mut Outcomes) {
        self.outcomes.drain(..).for_each(|(index, outcome)| outcomes.set(index, outcome));
    }

    /// Moves the operations on by their chunks. `outcomes` has those of the batch, and behind them
    /// those of [`Bulks::writes`].
    pub(super) async fn close<T: BatchTarget>(
        self,
        target: &mut T,
        mut outcomes: Vec<Outcome>,
        writes: usize,
    ) -> Result<Vec<Outcome>, T::Error> {
        let mut applied = outcomes.split_off(writes.min(outcomes.len())).into_iter();
        let now = self.now.unwrap_or(Timestamp::FAR_FUTURE);
        for (index, chunk, mut progress) in self.chunks {
            let of_chunk: Vec<Outcome> = applied.by_ref().take(chunk.writes.len()).collect();
            progress.add(chunk.known.clone());
            progress.add(count_outcomes(&chunk.writes, &of_chunk));
            progress.cursor = chunk.cursor;
            progress.available_at = now + chunk.lease;
            if chunk.lease == Duration::ZERO {
                progress.worker = None;
            }
            if chunk.is_last {
                (progress.status, progress.ended_at) = (BulkStatus::Done, Some(now));
            }
            target.update_bulk(chunk.claim.id, &progress).await?;
            if let Some(outcome) = outcomes.get_mut(index) {
                *outcome = Outcome::Advanced(of_chunk);
            }
        }
        Ok(outcomes)
    }
}

/// Returns the operation that a write names.
fn id(write: &BulkWrite) -> Option<BulkId> {
    match write {
        BulkWrite::Order(order) => Some(order.id),
        BulkWrite::Advance(chunk) => Some(chunk.claim.id),
        BulkWrite::Stop(id) => Some(*id),
        BulkWrite::Claim { .. } => None,
    }
}

/// Compares the place of an operation with the one that the chunk has seen. An operation that is
/// behind the chunk was moved there by an earlier commit of the same write.
fn admit(row: Option<&BulkRecord>, chunk: &BulkChunk) -> Result<BulkProgress, Outcome> {
    let Some(BulkRecord { progress, .. }) = row else { return Err(Outcome::Lost) };
    let holds = progress.epoch == chunk.claim.epoch;
    let is_at = |cursor: RunId| progress.cursor == cursor;
    match progress.status {
        BulkStatus::Running if holds && is_at(chunk.seen) => Ok(progress.clone()),
        BulkStatus::Running | BulkStatus::Done if holds && is_at(chunk.cursor) => Err(Outcome::Duplicate),
        _ => Err(Outcome::Lost),
    }
}
