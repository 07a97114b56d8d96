//! One batch: on the fast path if its writes allow it, else on the slow path.

use sqlx::{Connection, PgConnection};

use workflow_engine::store::{EndWrite, Outcome, ParkWrite, Write};

use super::context::{Context, Memory};
use super::error::Failure;
use super::fast_path::{Answer, BatchStatement, Fast};
use super::lanes;
use super::slow_path::{begin_statement, slow_path};

/// The result of a committed batch.
pub(super) enum Committed {
    Outcomes(Vec<Outcome>),
    /// An answer that is not read yet.
    Answer(Box<Answer>),
}

impl Committed {
    /// Returns the outcome of each of these writes, which are the batch.
    pub(super) fn read(self, memory: &Memory, writes: &[Write]) -> Vec<Outcome> {
        match self {
            Self::Outcomes(outcomes) => outcomes,
            Self::Answer(answer) => answer.read(memory, writes),
        }
    }
}

/// Applies the writes. `statement` is what the fast path has bound for them, if it takes them.
///
/// After an error, nothing that the memory holds may be relied on.
pub(super) async fn commit(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    statement: Option<BatchStatement>,
) -> Result<Committed, Failure> {
    let fast = match statement {
        Some(statement) if statement.has_limited_claims(writes) => {
            execute_with_limited_claims(connection, context, memory, writes, statement).await?
        }
        Some(statement) => statement.execute(connection, context, memory, writes).await?,
        None => Fast::NotApplicable,
    };
    let mut answer = match fast {
        Fast::Done(answer) => answer,
        Fast::NotApplicable | Fast::Refused => {
            return commit_slowly(connection, context, memory, writes).await.map(Committed::Outcomes);
        }
    };
    // The statement is committed, so an error from here on leaves an unknown effect.
    let rest = async {
        finish(connection, context, memory, writes, &mut answer).await?;
        answer.claim_more(connection, context, memory, writes).await
    };
    rest.await.map_err(Failure::of_unknown_effect)?;
    Ok(Committed::Answer(answer))
}

/// Executes the statement and the claims that look at limits in one transaction, because two would
/// wait for the disk twice.
async fn execute_with_limited_claims(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    statement: BatchStatement,
) -> Result<Fast, Failure> {
    let begun = connection.begin_with(begin_statement()).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    let applied = async {
        let mut fast = statement.execute(&mut transaction, context, memory, writes).await?;
        // Ends that are left come before the claims.
        if let Fast::Done(answer) = &mut fast
            && answer.unfinished.is_empty()
        {
            answer.claim_limited(&mut transaction, context, memory, writes).await?;
        }
        Ok(fast)
    };
    match applied.await {
        Ok(fast @ Fast::Done(_)) => {
            transaction.commit().await?;
            Ok(fast)
        }
        Ok(fast) => {
            transaction.rollback().await?;
            Ok(fast)
        }
        Err(failure) => {
            let failure: Failure = failure;
            // A broken connection cannot answer, and the failure says that it is broken.
            if !failure.breaks_connection {
                transaction.rollback().await?;
            }
            Err(failure)
        }
    }
}

/// Applies the writes on the slow path, after it has inserted the lanes that it turns out to lack.
pub(super) async fn commit_slowly(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    // A claim ends no other one and counts end none, so what is known of those still holds.
    if !writes.iter().all(|write| write.as_claim().is_some() || matches!(write, Write::Statistics(_))) {
        memory.forget();
    }
    match slow_path(connection, context, memory, writes).await {
        Err(failure) if failure.is_missing_lane() => {
            lanes::insert_of(connection, context.sql, writes).await?;
            slow_path(connection, context, memory, writes).await
        }
        outcomes => outcomes,
    }
}

/// Applies ends and parks of runs that were not what the statement took them for. The slow path
/// finds out what they are.
async fn finish(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
    answer: &mut Answer,
) -> Result<(), Failure> {
    for (index, write) in writes.iter().enumerate() {
        if let Write::End(EndWrite { claim, .. }) | Write::Park(ParkWrite { claim, .. }) = write
            && answer.unfinished.contains(&claim.run_id)
        {
            let late = commit_slowly(&mut *connection, context, memory, std::slice::from_ref(write)).await?;
            answer.late.extend(late.into_iter().map(|outcome| (index, outcome)));
        }
    }
    Ok(())
}
