//! Direct SQL access to the engine's tables, for what a benchmark reads and prepares itself.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};

use crate::BoxResult;
use crate::database::{Database, Kind};

/// How long a benchmark waits for a condition before it fails.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The shortest pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// The shortest pause as a multiple of the time that the last poll took.
///
/// Polling thus uses at most a hundredth of a processor. This keeps the comparison with the bare
/// program fair, which is not polled.
const PAUSE_PER_POLL: u32 = 100;

/// A connection to the tables of a database. `{runs}`, `{lanes}`, `{steps}`, `{stats}`, `{tags}`,
/// `{turns}`, `{audit}` and `{workers}` in its statements are replaced by the names of the tables.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    database: &'a Database,
    connection: AnyConnection,
}

#[derive(Debug)]
enum AnyConnection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl<'a> Tables<'a> {
    pub(crate) async fn open(database: &'a Database) -> BoxResult<Self> {
        let connection = match database.kind() {
            Kind::Sqlite => {
                let options: SqliteConnectOptions = database.url.parse()?;
                let options = options.busy_timeout(Duration::from_secs(60)).disable_statement_logging();
                AnyConnection::Sqlite(options.connect().await?)
            }
            Kind::Postgres => AnyConnection::Postgres(PgConnection::connect(&database.url).await?),
        };
        Ok(Self { database, connection })
    }

    fn named(&self, statement: &str) -> AssertSqlSafe<String> {
        let table = |name| self.database.table(name);
        AssertSqlSafe(
            statement
                .replace("{runs}", &table("workflow_runs"))
                .replace("{lanes}", &table("workflow_lanes"))
                .replace("{steps}", &table("step_attempts"))
                .replace("{stats}", &table("workflow_stats"))
                .replace("{tags}", &table("workflow_tags"))
                .replace("{turns}", &table("workflow_turns"))
                .replace("{audit}", &table("workflow_audit"))
                .replace("{workers}", &table("workflow_workers")),
        )
    }

    /// Returns the number that `query` selects.
    pub(crate) async fn number(&mut self, query: &str) -> BoxResult<i64> {
        let query = self.named(query);
        Ok(match &mut self.connection {
            AnyConnection::Sqlite(connection) => sqlx::query_scalar(query).fetch_one(connection).await?,
            AnyConnection::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await?,
        })
    }

    /// Executes a statement. Returns the number of rows that it wrote.
    pub(crate) async fn execute(&mut self, statement: &str) -> BoxResult<u64> {
        let statement = self.named(statement);
        Ok(match &mut self.connection {
            AnyConnection::Sqlite(connection) => sqlx::query(statement).execute(connection).await?.rows_affected(),
            AnyConnection::Postgres(connection) => sqlx::query(statement).execute(connection).await?.rows_affected(),
        })
    }

    /// Polls `query` until it returns at least `least`. Returns the number of polls.
    ///
    /// # Errors
    /// A time-out message if the number is not reached within [`TIMEOUT`], or an error of the
    /// database.
    pub(crate) async fn until(&mut self, query: &str, least: u32) -> BoxResult<u32> {
        let started = Instant::now();
        let mut polls = 0;
        loop {
            polls += 1;
            let polled = Instant::now();
            let number = self.number(query).await?;
            let pause = PAUSE.max(polled.elapsed() * PAUSE_PER_POLL);
            if number >= i64::from(least) {
                return Ok(polls);
            }
            if started.elapsed() > TIMEOUT {
                return Err(format!("waited {TIMEOUT:?} for {least}, but got {number}: {query}").into());
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until at least `workers` workers are registered in the database.
    pub(crate) async fn until_workers(&mut self, workers: u32) -> BoxResult<()> {
        self.until("SELECT count(*) FROM {workers}", workers).await.map(drop)
    }

    /// Waits until every run has ended. Returns the number of polls.
    ///
    /// The query uses the indexes of the claims, so it is cheap no matter how many runs there are.
    pub(crate) async fn until_all_ended(&mut self) -> BoxResult<u32> {
        let ended = "SELECT CAST(CASE
                         WHEN EXISTS (SELECT 1 FROM {runs} WHERE status IN ('pending', 'parked') AND paused_at IS NULL) THEN 0
                         WHEN EXISTS (SELECT 1 FROM {runs} WHERE status = 'running') THEN 0
                         ELSE 1 END AS bigint)";
        self.until(ended, 1).await
    }
}
