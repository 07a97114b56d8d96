//! One batch, one transaction: by the shortest way that its writes allow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::{Connection, PgConnection};

use workflow_engine::faults::failpoint_error;
use workflow_engine::model::Clock;
use workflow_engine::store::{Outcome, Write};

use super::bound::{Applied, Bound};
use super::claim_start::ClaimStart;
use super::error::Failure;
use super::known_claims::KnownClaims;
use super::lone::Lone;
use super::plain::{Plain, outcomes};
use super::slow_path::slow_path;
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

/// What batches leave to those that follow. One may be bound while another is under way, so nobody keeps it locked while he waits.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

/// See [`Memory`].
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) workers: Workers,
    pub(super) known: KnownClaims,
    pub(super) start: ClaimStart,
}

impl Memory {
    /// What is remembered, for as long as this is kept.
    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is not to be relied on after a failure.
    pub(super) fn forget(&self) {
        let mut memory = self.lock();
        memory.known = KnownClaims::default();
        memory.start.forget();
    }
}

/// What a batch came to that is committed.
pub(super) enum Committed {
    Read(Vec<Outcome>),
    /// All that it ended or parked is ended and parked.
    Unread(Applied),
}

impl Committed {
    /// What became of each of these writes, which are its own.
    pub(super) fn read(self, memory: &Memory, writes: &[Write]) -> Result<Vec<Outcome>, Failure> {
        match self {
            Self::Read(outcomes) => Ok(outcomes),
            Self::Unread(applied) => all(applied.read(memory, writes)?),
        }
    }
}

/// Applies the writes in one transaction; `bound` is the statement that was made of them ahead. What is remembered after a failure is not
/// to be relied on.
pub(super) async fn commit(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    bound: Option<Bound>,
) -> Result<Committed, Failure> {
    if let Some(lone) = Lone::of(writes) {
        memory.lock().known.finished(writes);
        if let Some(outcomes) = lone.apply(connection, context.sql, context.clock).await? {
            return Ok(Committed::Read(outcomes));
        }
    } else if let Some(committed) = commit_plain(connection, context, memory, writes, bound).await? {
        return Ok(committed);
    }
    take_the_long_way(connection, context, memory, writes).await.map(Committed::Read)
}

/// Applies them if they are a plain batch. `None`: nothing was changed.
async fn commit_plain(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    bound: Option<Bound>,
) -> Result<Option<Committed>, Failure> {
    let plain = if bound.is_some() { None } else { Plain::of(writes, context.workers, &memory.lock().known) };
    let bound = bound.map(Ok).or_else(|| plain.as_ref()?.bind_one(context, &memory.lock().known)).transpose()?;
    // A batch that is bound from now on must ask for what this one lets go of.
    memory.lock().known.finished(writes);
    match (bound, plain) {
        (Some(bound), _) => commit_bound(connection, context, memory, writes, bound).await,
        (None, Some(plain)) => {
            let apply = async |connection: &mut PgConnection| plain.apply(connection, context, memory).await;
            let Some((mut applied, started, claimed)) = transact(connection, apply).await? else { return Ok(None) };
            let mut memory = memory.lock();
            applied.note_asked(&mut memory.known);
            let requests = writes.iter().filter_map(Write::as_claim);
            requests.zip(&claimed).for_each(|(request, claimed)| {
                applied.note_claimed(&mut memory.known, request, claimed);
            });
            let outcomes = outcomes(writes, started, claimed, &[])?;
            Ok(Some(Committed::Read(all(outcomes)?)))
        }
        (None, None) => Ok(None),
    }
}

async fn commit_bound(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    bound: Bound,
) -> Result<Option<Committed>, Failure> {
    let Some(mut applied) = bound.apply(connection, context, memory, writes).await? else { return Ok(None) };
    applied.note_asked(&mut memory.lock().known);
    if applied.unfinished.is_empty() {
        return Ok(Some(Committed::Unread(applied)));
    }
    let outcomes = applied.read(memory, writes)?;
    Ok(Some(Committed::Read(finish(connection, context, memory, writes, outcomes).await?)))
}

/// The outcomes. Ends and parks that another transaction came before go the long way, which says why.
async fn finish(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
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

fn all(outcomes: Vec<Option<Outcome>>) -> Result<Vec<Outcome>, Failure> {
    outcomes.into_iter().collect::<Option<_>>().ok_or_else(|| Failure::corrupt("a write has no outcome"))
}

pub(super) async fn take_the_long_way(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    memory.forget();
    slow_path(connection, context, writes).await
}

/// Applies writes in a transaction. It is rolled back if that fails, or says `None`.
pub(super) async fn transact<T>(
    connection: &mut PgConnection,
    apply: impl AsyncFnOnce(&mut PgConnection) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let begun = connection.begin_with(BEGIN).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    match apply(&mut transaction).await {
        Ok(Some(applied)) => {
            failpoint_error("store.in_transaction")?;
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
