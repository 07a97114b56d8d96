use sqlx::PgConnection;

use workflow_engine::store::{DatabaseError, Outcome, Write, apply_within};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::hints;
use super::ownership::Workers;
use super::slow_path::SlowPath;

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
        let outcome = Limit::from_now().run(async {
            let (sql, clock, workers) = (&self.sql, &self.clock, &Workers::default());
            let outcome = apply_within(&mut SlowPath { connection, sql, clock, workers }, write).await?;
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
