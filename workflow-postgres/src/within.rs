use sqlx::{Connection, PgConnection, Row};

use workflow_engine::store::{DatabaseError, Outcome, Write, apply_within};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::event::KeyLock;
use super::open::connect;
use super::ownership::Workers;
use super::slow_path::SlowPath;
use super::{hints, lanes};

const EMIT: &str = "emit an event in the application's transaction";

/// Names the operation of the write, as errors show it.
fn operation(write: &Write) -> &'static str {
    match write {
        Write::Start(_) => "start a run in the application's transaction",
        Write::Signal(_) => "send a signal in the application's transaction",
        Write::Emit(_) => EMIT,
        Write::Cancel(_) => "cancel a run in the application's transaction",
        _ => "write in the application's transaction",
    }
}

impl PostgresStore {
    /// Returns the isolation level of the transaction if an event cannot be emitted in it: its
    /// statements do not see waits that have begun since the first of them.
    ///
    /// # Errors
    /// [`DatabaseError`] of the database.
    pub(crate) async fn refused_isolation(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<String>, DatabaseError> {
        let level = Limit::from_now().run(async {
            let row = self.sql.read_isolation.query().fetch_one(connection).await?;
            Ok(row.try_get::<String, _>("level")?)
        });
        let level = level.await.map_err(|failure| failure.during(EMIT))?;
        Ok((!matches!(level.as_str(), "read committed" | "read uncommitted")).then_some(level))
    }

    /// Starts, signals or cancels a run, or emits an event, in a transaction that the caller
    /// commits; other processes are notified after that commit. A signal and a cancel lock the row
    /// of the run until then. The lane of a run is inserted by a transaction of the client's own
    /// (`lanes.rs`).
    ///
    /// # Errors
    /// [`DatabaseError`] of the database; kind
    /// [`DatabaseErrorKind::Invalid`](workflow_engine::store::DatabaseErrorKind::Invalid) if the
    /// connection leads to a database without this schema; kind
    /// [`DatabaseErrorKind::Busy`](workflow_engine::store::DatabaseErrorKind::Busy) if the
    /// transaction keeps a snapshot that is older than the lane of the run.
    pub(crate) async fn write_within(
        &self,
        connection: &mut PgConnection,
        write: &Write,
    ) -> Result<Outcome, DatabaseError> {
        let outcome = Limit::from_now().run(async {
            let (sql, clock, workers) = (&self.sql, &self.clock, &Workers::default());
            let mut target = SlowPath { connection, sql, clock, workers, memory: None, key_lock: KeyLock::Wait };
            let outcome = match apply_within(&mut target, write).await {
                Err(failure) if failure.is_missing_lane() => {
                    self.insert_lanes_of(write).await?;
                    apply_within(&mut target, write).await?
                }
                outcome => outcome?,
            };
            hints::notify_within(connection, sql, &self.channel).await?;
            Ok(outcome)
        });
        outcome.await.map_err(|failure| name_other_database(failure).during(operation(write)))
    }
}

impl PostgresStore {
    /// Inserts the lanes of the runs that this write starts. On a connection outside of the pool,
    /// because the application's transactions may have all connections of the pool, and the
    /// executor's may wait for a row that this transaction has locked.
    async fn insert_lanes_of(&self, write: &Write) -> Result<(), Failure> {
        let mut connection = connect(&self.pool.connect_options(), &self.sql).await?;
        lanes::insert_of(&mut connection, &self.sql, std::slice::from_ref(write)).await?;
        // The lanes are committed, so an error while the connection closes does not matter.
        let _ = connection.close().await;
        Ok(())
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
