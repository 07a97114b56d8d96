//! What a PostgreSQL server says of its own work.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::BoxResult;
use crate::database::Database;

/// How long the sessions of programs that have ended may take until they are gone.
const GONE_WITHIN: Duration = Duration::from_secs(30);

const SHORT: Duration = Duration::from_millis(10);

/// Counters of the server at one moment.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Transactions of the database, committed or rolled back; a statement outside of a transaction is one.
    transactions: i64,
    /// Where the WAL ends.
    wal_end: String,
}

/// The work between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) transactions: f64,
    pub(crate) wal_bytes: f64,
    /// Of these, full-page images: copies of pages that were changed for the first time since a checkpoint. `None` where the
    /// server does not have `pg_walinspect`.
    pub(crate) image_bytes: Option<f64>,
}

impl Counters {
    /// Waits until this is the only session in the database, for a session adds up what it did when it ends; then looks.
    /// With a checkpoint first, so that the pages which are copied whole into the WAL are the same each time.
    pub(crate) async fn read(database: &Database, checkpoint: bool) -> BoxResult<Self> {
        let mut connection = PgConnection::connect(&database.url).await?;
        wait_until_alone(&mut connection).await?;
        if checkpoint {
            let checkpointed = sqlx::query("CHECKPOINT").execute(&mut connection).await;
            checkpointed.map_err(|error| format!("CHECKPOINT: {error}; give a user who may"))?;
        }
        let transactions = sqlx::query_scalar(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()",
        );
        let transactions = transactions.fetch_one(&mut connection).await?;
        let wal_end = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Self { transactions, wal_end })
    }

    /// What was done between the two.
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
        // Rolled back, for the extension is not ours to leave there.
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
    let begun = Instant::now();
    while sqlx::query_scalar::<_, i64>(others).fetch_one(&mut *connection).await? > 0 {
        if begun.elapsed() > GONE_WITHIN {
            return Err(
                "others use this database, and what they do cannot be told from what is measured: give one of its own"
                    .into(),
            );
        }
        tokio::time::sleep(SHORT).await;
    }
    Ok(())
}

/// How many runs have succeeded, the sum of their numbers, and the seconds from the first claim to the last end.
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
