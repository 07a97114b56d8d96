use sqlx::PgConnection;

use workflow_engine::store::{Asked, DatabaseError, Ended, Outcome, Write};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::family;
use super::{fence, hints, settle, signal, start};

/// Names the operation of the write, as errors show it.
fn operation(write: &Write) -> &'static str {
    match write {
        Write::Start(_) => "start a run in the application's transaction",
        Write::Signal(_) => "send a signal in the application's transaction",
        Write::Cancel(_) => "cancel a run in the application's transaction",
        _ => "write in the application's transaction",
    }
}

impl PostgresStore {
    /// Starts, signals or cancels a run in a transaction that the caller commits; other processes
    /// are notified after that commit. A signal and a cancel lock the row of the run until then.
    ///
    /// # Errors
    /// [`DatabaseError`] of the database; kind
    /// [`DatabaseErrorKind::Invalid`](workflow_engine::store::DatabaseErrorKind::Invalid) if the
    /// connection leads to a database without this schema.
    pub(crate) async fn write_within(
        &self,
        connection: &mut PgConnection,
        write: &Write,
    ) -> Result<Outcome, DatabaseError> {
        let (sql, clock) = (&self.sql, &self.clock);
        let outcome = Limit::from_now().run(async {
            let outcome = match write {
                Write::Start(run) => start::start(connection, sql, clock, &[run]).await?.pop().map(Outcome::Started),
                Write::Signal(new) => {
                    let fence = fence::lock(connection, sql, &Asked::from([(new.run_id, None)])).await?;
                    signal::send(connection, sql, clock, &fence, &[new]).await?.pop().map(Outcome::Signaled)
                }
                Write::Cancel(run) => {
                    fence::lock(connection, sql, &Asked::from([(*run, None)])).await?;
                    let canceled = settle::cancel(connection, sql, &sql.cancel_runs, clock, &[*run]).await?.pop();
                    if let Some(outcome) = canceled {
                        family::tell(connection, sql, clock, Ended::by_cancel(*run, outcome)).await?;
                    }
                    canceled.map(Outcome::Canceled)
                }
                _ => return Err(Failure::invalid("only starts, signals and cancels can")),
            };
            let outcome = outcome.ok_or_else(|| Failure::corrupt("the write has no outcome"))?;
            hints::notify_within(connection, sql, &self.channel).await?;
            Ok(outcome)
        });
        outcome.await.map_err(|failure| name_other_database(failure).during(operation(write)))
    }
}

fn name_other_database(failure: Failure) -> Failure {
    if !failure.is_missing_table() {
        return failure;
    }
    Failure::invalid(
        "the transaction belongs to another database: it does not see this client's schema; begin it on the database \
         that the client is connected to",
    )
}
