//! The statistics of a PostgreSQL server about its own work.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::BoxResult;
use crate::database::Database;

/// How long the server may take to close the sessions of programs that have ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause between two checks for open sessions.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The server's counters at one moment.
#[derive(Debug)]
pub(crate) struct Counters {
    /// The number of transactions of the database, committed or rolled back. A statement outside of
    /// a transaction counts as one.
    transactions: i64,
    /// The end of the WAL.
    wal_end: String,
}

/// The server's work between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) transactions: f64,
    pub(crate) wal_bytes: f64,
    /// The part of `wal_bytes` that is full-page images: copies of pages that were changed for the
    /// first time since a checkpoint. `None` if the server does not have `pg_walinspect`.
    pub(crate) image_bytes: Option<f64>,
}

impl Counters {
    /// Waits until this is the only session in the database, then reads the counters. The wait is
    /// needed because a session adds its work to the counters when it ends.
    ///
    /// With `checkpoint`, a checkpoint comes first, so that the same pages are copied whole into
    /// the WAL each time.
    pub(crate) async fn read(database: &Database, checkpoint: bool) -> BoxResult<Self> {
        let mut connection = PgConnection::connect(&database.url).await?;
        wait_until_alone(&mut connection).await?;
        if checkpoint {
            let checkpointed = sqlx::query("CHECKPOINT").execute(&mut connection).await;
            checkpointed.map_err(|error| format!("CHECKPOINT: {error}; use a role with this permission"))?;
        }
        let transactions = sqlx::query_scalar(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()",
        );
        let transactions = transactions.fetch_one(&mut connection).await?;
        let wal_end = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Self { transactions, wal_end })
    }

    /// Returns the work done between `self` and `later`.
    pub(crate) async fn until(&self, later: &Self, database: &Database) -> BoxResult<Work> {
        let mut connection = PgConnection::connect(&database.url).await?;
        let wal_bytes: f64 = sqlx::query_scalar("SELECT ($2::pg_lsn - $1::pg_lsn)::float8")
            .bind(&self.wal_end)
            .bind(&later.wal_end)
            .fetch_one(&mut connection)
            .await?;
        let image_bytes = self.images_until(later, &mut connection).await.ok();
        connection.close().await?;
        let transactions = (later.transactions - self.transactions) as f64;
        Ok(Work { transactions, wal_bytes, image_bytes })
    }

    async fn images_until(&self, later: &Self, connection: &mut PgConnection) -> sqlx::Result<f64> {
        // The transaction is rolled back, so that the extension does not stay in the database.
        let mut transaction = connection.begin().await?;
        sqlx::query("CREATE EXTENSION IF NOT EXISTS pg_walinspect").execute(&mut *transaction).await?;
        let sum = "SELECT sum(fpi_size)::float8 FROM pg_get_wal_stats($1::pg_lsn, $2::pg_lsn)";
        let sum = sqlx::query_scalar(sum).bind(&self.wal_end).bind(&later.wal_end);
        let sum = sum.fetch_one(&mut *transaction).await?;
        transaction.rollback().await?;
        Ok(sum)
    }
}

async fn wait_until_alone(connection: &mut PgConnection) -> BoxResult<()> {
    let others = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let started = Instant::now();
    while sqlx::query_scalar::<_, i64>(others).fetch_one(&mut *connection).await? > 0 {
        if started.elapsed() > CLOSE_TIMEOUT {
            return Err(
                "other sessions use this database, and their work would be measured too: use a separate database"
                    .into(),
            );
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

/// Returns how many runs have succeeded, the sum of their outputs, and the seconds from the first
/// claim to the last end.
pub(crate) async fn outcome(database: &Database) -> BoxResult<(i64, i64, f64)> {
    let mut connection = PgConnection::connect(&database.url).await?;
    let table = database.table("workflow_runs");
    let outcome = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT count(*), coalesce(sum(output::bigint), 0)::bigint,
                coalesce((max(completed_at) - min(started_at)) / 1e6, 0)::float8
         FROM {table} WHERE status = 'succeeded'"
    )));
    let outcome = outcome.fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(outcome)
}
