//! What a benchmark reads and sets up beside the engine, in SQL.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};

use crate::BoxResult;
use crate::database::{Database, Kind};

/// How long a benchmark waits for a fact before it gives up.
const PATIENCE: Duration = Duration::from_secs(600);

/// Between two looks; and so many times as long as the look took, so that it takes a hundredth of a processor at most: the bare program is
/// not looked at.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_OF_LOOK: u32 = 100;

/// A connection to the tables of a database. In its statements `{runs}`, `{steps}` and `{workers}` stand for tables.
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
                .replace("{steps}", &table("step_attempts"))
                .replace("{workers}", &table("workflow_workers")),
        )
    }

    /// The number that this query answers.
    pub(crate) async fn number(&mut self, query: &str) -> BoxResult<i64> {
        let query = self.named(query);
        Ok(match &mut self.connection {
            AnyConnection::Sqlite(connection) => sqlx::query_scalar(query).fetch_one(connection).await?,
            AnyConnection::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await?,
        })
    }

    /// Executes a statement. Says how many rows it wrote.
    pub(crate) async fn execute(&mut self, statement: &str) -> BoxResult<u64> {
        let statement = self.named(statement);
        Ok(match &mut self.connection {
            AnyConnection::Sqlite(connection) => sqlx::query(statement).execute(connection).await?.rows_affected(),
            AnyConnection::Postgres(connection) => sqlx::query(statement).execute(connection).await?.rows_affected(),
        })
    }

    /// Asks until the query answers at least this number. Says how often that was.
    ///
    /// # Errors
    /// If it does not come to that.
    pub(crate) async fn until(&mut self, query: &str, least: u32) -> BoxResult<u32> {
        let begun = Instant::now();
        let mut looks = 0;
        loop {
            looks += 1;
            let looked = Instant::now();
            let number = self.number(query).await?;
            let pause = PAUSE.max(looked.elapsed() * PAUSE_OF_LOOK);
            if number >= i64::from(least) {
                return Ok(looks);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("waited {PATIENCE:?} for {least}, there are {number}: {query}").into());
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until so many workers work on the database.
    pub(crate) async fn until_workers(&mut self, workers: u32) -> BoxResult<()> {
        self.until("SELECT count(*) FROM {workers}", workers).await.map(drop)
    }

    /// Waits until no run is left. Says how many looks that took. They are where claims look, which costs little however many runs
    /// there are.
    pub(crate) async fn until_all_ended(&mut self) -> BoxResult<u32> {
        let ended = "SELECT CAST(CASE
                         WHEN EXISTS (SELECT 1 FROM {runs} WHERE status IN ('pending', 'parked') AND paused_at IS NULL) THEN 0
                         WHEN EXISTS (SELECT 1 FROM {runs} WHERE status = 'running') THEN 0
                         ELSE 1 END AS bigint)";
        self.until(ended, 1).await
    }
}
