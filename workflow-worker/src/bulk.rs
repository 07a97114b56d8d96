//! Executes bulk operations: claims one that is due, and changes its runs chunk by chunk.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use workflow_engine::model::{BulkCounts, BulkFailure, BulkRecord};
use workflow_engine::store::{BulkChunk, BulkClaim, BulkWrite, DatabaseErrorKind, Outcome, Write};
use workflow_sdk::DatabaseError;
use workflow_sdk::operate::next_bulk_chunk;

use crate::due::{FAILURE_DELAY, wait_for_look};
use crate::shared::Shared;
use crate::sweep::jittered;

/// The longest lease of an operation. A chunk renews it, so it only decides how soon the operation
/// of a dead worker goes on.
const LONGEST_LEASE: Duration = Duration::from_secs(10);

/// The shortest time between two looks that are caused by hints. A busy database gives many, and
/// few of them concern an operation.
const SPACING: Duration = Duration::from_millis(500);

/// How many times the poll interval a worker waits for a hint before it looks for an operation by
/// itself.
const POLLS: u32 = 10;

/// The smallest chunk, unless one is cut because of a refusal. On a busy disk even a small commit
/// takes long, so smaller chunks would only mean more commits.
const LEAST: u32 = 100;

/// The smallest chunk of deletions. It is smaller because each run may have a long history.
const LEAST_DELETED: u32 = 10;

/// The most runs of a chunk.
const MOST: u32 = 500;

/// How long a chunk may take, with its reads, before the next one is smaller. A batch of SQLite
/// keeps all other writers waiting.
const SLICE: Duration = Duration::from_millis(50);

/// The worker rests for this many times the time of the chunk before, so that an operation uses a
/// quarter of the time of one connection.
const REST: u32 = 3;

/// The longest rest: a database that was away for a while is not left alone for minutes.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How long an operation that this program does not understand is left to other workers.
const LEFT: Duration = Duration::from_secs(60);

/// Executes bulk operations, until the future is dropped.
pub(crate) async fn execute_bulks(shared: Arc<Shared>) {
    let mut changes = shared.executor().notifier().bulks();
    let spacing = shared.pace(SPACING, Duration::ZERO);
    loop {
        changes.borrow_and_update();
        let looked = Instant::now();
        let wait = match look(&shared).await {
            Ok(None) => continue,
            Ok(Some(wait)) => wait,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot execute bulk operations, trying again"
                );
                FAILURE_DELAY
            }
        };
        wait_for_look(&mut changes, looked + wait, looked + spacing).await;
    }
}

/// Executes the operation that is due, if any. Returns when to look again; `None`: at once.
async fn look(shared: &Shared) -> Result<Option<Duration>, DatabaseError> {
    let poll = jittered(shared.options.poll_interval.saturating_mul(POLLS));
    let wait = match shared.client.store().next_bulk().await? {
        None => return Ok(Some(poll)),
        Some(wait) if !wait.is_zero() => return Ok(Some(wait.min(poll))),
        Some(_) => FAILURE_DELAY,
    };
    let claim = BulkWrite::Claim { worker: shared.id, lease: lease(shared) };
    match commit(shared, claim).await {
        Outcome::BulkClaimed(Some(row)) => execute(shared, *row).await.map(|()| None),
        Outcome::Refused(error) => Err(error),
        // Another worker has claimed the operation.
        _ => Ok(Some(wait)),
    }
}

/// Executes an operation to its end, or until another worker has it or it is stopped.
async fn execute(shared: &Shared, mut row: BulkRecord) -> Result<(), DatabaseError> {
    let least = if row.order.verb == "run.delete" { LEAST_DELETED } else { LEAST };
    let (mut size, mut is_cut) = (least, false);
    loop {
        let begun = Instant::now();
        let chunk = match next_bulk_chunk(&shared.client, &row, size, lease(shared)).await {
            Ok(chunk) => chunk,
            Err(error) => return leave(shared, row, error).await,
        };
        let (cursor, is_last) = (chunk.cursor, chunk.is_last);
        match commit(shared, BulkWrite::Advance(chunk.clone())).await {
            Outcome::Advanced(_) | Outcome::Duplicate if is_last => return Ok(()),
            Outcome::Advanced(_) | Outcome::Duplicate => row.progress.cursor = cursor,
            Outcome::Refused(error) if error.kind.is_transient() => return Err(error),
            // One run is bad, and must not prevent the others.
            Outcome::Refused(_) if size > 1 => {
                (size, is_cut) = (size / 2, true);
                continue;
            }
            Outcome::Refused(error) => {
                let alone = refused(chunk, &error);
                match commit(shared, BulkWrite::Advance(alone)).await {
                    Outcome::Advanced(_) | Outcome::Duplicate if is_last => return Ok(()),
                    Outcome::Advanced(_) | Outcome::Duplicate => row.progress.cursor = cursor,
                    Outcome::Refused(error) => return Err(error),
                    _ => return Ok(()),
                }
            }
            // It was stopped, or another worker has taken it over.
            _ => return Ok(()),
        }
        let took = begun.elapsed();
        is_cut &= size < least;
        size = if is_cut { size * 2 } else { next_size(size, least, took) };
        tokio::time::sleep((took * REST).min(LONGEST_REST)).await;
    }
}

/// Gives an operation back that this program does not understand, for a while.
async fn leave(shared: &Shared, row: BulkRecord, error: DatabaseError) -> Result<(), DatabaseError> {
    if !matches!(error.kind, DatabaseErrorKind::Corrupt | DatabaseErrorKind::Codec) {
        return Err(error);
    }
    if shared.first_warning(&format!("bulk operation {}", row.order.id)) {
        tracing::warn!(
            bulk = %row.order.id,
            error = &error as &dyn std::error::Error,
            "a bulk operation is left to workers of the release that wrote it, with its keys"
        );
    }
    let cursor = row.progress.cursor;
    let claim = BulkClaim { id: row.order.id, epoch: row.progress.epoch };
    let (writes, known) = (Vec::new(), BulkCounts::default());
    let chunk = BulkChunk { claim, seen: cursor, cursor, writes, known, is_last: false, lease: LEFT };
    match commit(shared, BulkWrite::Advance(chunk)).await {
        Outcome::Refused(error) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the chunk of the one run whose write was refused, without the write.
fn refused(chunk: BulkChunk, error: &DatabaseError) -> BulkChunk {
    let mut known = chunk.known;
    known.failures.extend(chunk.writes.into_iter().map(|(run, _)| BulkFailure::new(run, error.to_string())));
    BulkChunk { known, writes: Vec::new(), ..chunk }
}

async fn commit(shared: &Shared, write: BulkWrite) -> Outcome {
    match shared.executor().commit(Write::Bulk(Box::new(write))).await {
        Ok(outcome) => outcome,
        // The worker ends with the executor.
        Err(_) => std::future::pending().await,
    }
}

fn lease(shared: &Shared) -> Duration {
    shared.options.lease.min(LONGEST_LEASE)
}

/// Returns the size of the next chunk, after a chunk of `size` runs took `took`.
fn next_size(size: u32, least: u32, took: Duration) -> u32 {
    let next = if took > SLICE { size / 2 } else { size + size.div_ceil(2) };
    next.clamp(least, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_grows_to_what_its_time_allows() {
        let (quick, slow) = (SLICE / 2, SLICE * 2);
        let grown = (0..20).fold(LEAST, |size, _| next_size(size, LEAST, quick));
        assert_eq!(grown, MOST);
        assert_eq!(next_size(grown, LEAST, slow), MOST / 2);
        assert_eq!(next_size(LEAST, LEAST, slow), LEAST);
        assert_eq!(next_size(20, LEAST_DELETED, slow), LEAST_DELETED);
    }
}
