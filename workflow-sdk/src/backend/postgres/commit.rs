//! One batch, one transaction: by the shortest way that its writes allow.

use sqlx::{Connection, PgConnection};

use crate::backend::{Outcome, Write};
use crate::failpoint::failpoint_error;
use crate::model::Clock;

use super::batch::Batch;
use super::claim_start::ClaimStart;
use super::error::Failure;
use super::known_claims::KnownClaims;
use super::lone::Lone;
use super::plain::Plain;
use super::sql::Sql;
use super::worker_lock::Workers;

/// Stated in the transaction itself: behind a pooler, the session's settings may be another's.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What a batch is applied with.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    pub(super) sql: &'c Sql,
    pub(super) clock: &'c Clock,
    pub(super) workers: &'c Workers,
}

/// What batches leave to those that follow.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) known: KnownClaims,
    pub(super) start: ClaimStart,
}

/// Applies the writes in one transaction. What is remembered after a failure is not to be relied on.
pub(super) async fn commit(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &mut Memory,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    if let Some(lone) = Lone::of(writes)
        && let Some(outcomes) = lone.apply(connection, context.sql, context.clock).await?
    {
        writes.iter().for_each(|write| memory.known.finished(write));
        return Ok(outcomes);
    }
    if let Some(plain) = Plain::of(writes, context.workers, &memory.known) {
        let applied = if plain.is_one_statement() {
            plain.apply(connection, context, memory).await?
        } else {
            let apply = async |connection: &mut PgConnection| plain.apply_all(connection, context, memory).await;
            transact(connection, apply).await?
        };
        if let Some(mut applied) = applied {
            applied.tell(writes, &mut memory.known);
            return finish(connection, context, memory, writes, applied.outcomes).await;
        }
    }
    take_the_long_way(connection, context, memory, writes).await
}

/// The outcomes. Ends and parks that another transaction came before go the long way, which says why.
async fn finish(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &mut Memory,
    writes: &[Write],
    outcomes: Vec<Option<Outcome>>,
) -> Result<Vec<Outcome>, Failure> {
    let mut finished = Vec::with_capacity(outcomes.len());
    for (outcome, write) in outcomes.into_iter().zip(writes) {
        match outcome {
            Some(outcome) => finished.push(outcome),
            None => {
                let late = take_the_long_way(connection, context, memory, std::slice::from_ref(write)).await;
                // The others are committed.
                finished.extend(late.map_err(Failure::of_unknown_effect)?);
            }
        }
    }
    Ok(finished)
}

async fn take_the_long_way(
    connection: &mut PgConnection,
    Context { sql, clock, workers }: Context<'_>,
    memory: &mut Memory,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    *memory = Memory::default();
    let mut batch = Batch::sort(writes);
    let wanted = batch.wanted(workers);
    let apply =
        async |connection: &mut PgConnection| batch.apply(connection, sql, clock, (wanted, workers)).await.map(Some);
    transact(connection, apply).await?;
    batch.outcomes()
}

/// Applies writes in a transaction. It is rolled back if that fails, or says `None`.
async fn transact<T>(
    connection: &mut PgConnection,
    apply: impl AsyncFnOnce(&mut PgConnection) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let begun = connection.begin_with(BEGIN).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    match apply(&mut transaction).await {
        Ok(Some(applied)) => {
            failpoint_error("backend.in_transaction")?;
            transaction.commit().await?;
            Ok(Some(applied))
        }
        Ok(None) => {
            transaction.rollback().await?;
            Ok(None)
        }
        Err(failure) => {
            // Of a broken connection nobody hears the answer, and the failure says that it is broken.
            if !failure.breaks_connection {
                transaction.rollback().await?;
            }
            Err(failure)
        }
    }
}
