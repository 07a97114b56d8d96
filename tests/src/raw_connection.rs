//! A connection of a test's own, which bypasses the contract.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor, PgConnection, Row, SqliteConnection};

/// A connection of the test's own. Unqualified table names are those of the fixture's data.
#[derive(Debug)]
pub enum RawConnection {
    /// To the file.
    Sqlite(SqliteConnection),
    /// To the server, with the fixture's schema as search path.
    Postgres(PgConnection),
}

impl RawConnection {
    /// Connects. The schema becomes the search path, if there is one. The test's own statements are
    /// not logged, because they may hold plain values.
    pub async fn open(url: &str, schema: Option<&str>) -> Self {
        match schema {
            None => {
                let options = SqliteConnectOptions::from_str(url).expect("a URL").disable_statement_logging();
                Self::Sqlite(options.connect().await.expect("raw connection"))
            }
            Some(schema) => {
                let options = PgConnectOptions::from_str(url).expect("a URL").disable_statement_logging();
                // PgBouncer refuses the parameter by default.
                let options = options.extra_float_digits(None);
                let mut raw = Self::Postgres(options.connect().await.expect("raw connection"));
                raw.execute(format!("SET search_path TO {schema}")).await;
                raw
            }
        }
    }

    /// Runs statements without parameters.
    pub async fn execute(&mut self, sql: impl fmt::Display) {
        let sql = sqlx::AssertSqlSafe(sql.to_string());
        match self {
            Self::Sqlite(connection) => drop(connection.execute(sqlx::raw_sql(sql)).await.expect("raw statement")),
            Self::Postgres(connection) => drop(connection.execute(sqlx::raw_sql(sql)).await.expect("raw statement")),
        }
    }

    /// Runs statements without parameters; returns the message if the database refuses them.
    pub async fn refused(&mut self, sql: impl fmt::Display) -> Option<String> {
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_string()));
        let refused = match self {
            Self::Sqlite(connection) => connection.execute(sql).await.err(),
            Self::Postgres(connection) => connection.execute(sql).await.err(),
        };
        refused.map(|error| error.to_string())
    }

    /// Reads one number.
    pub async fn number(&mut self, sql: impl fmt::Display) -> i64 {
        let sql = sqlx::AssertSqlSafe(sql.to_string());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.expect("raw query"),
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.expect("raw query"),
        }
    }

    /// Reads one text.
    pub async fn text(&mut self, sql: impl fmt::Display) -> String {
        let sql = sqlx::AssertSqlSafe(sql.to_string());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.expect("raw query"),
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.expect("raw query"),
        }
    }

    /// Reads one column of texts.
    pub async fn lines(&mut self, sql: impl fmt::Display, column: &str) -> Vec<String> {
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_string()));
        match self {
            Self::Sqlite(connection) => {
                let rows = connection.fetch_all(sql).await.expect("raw query");
                rows.iter().map(|row| row.get(column)).collect()
            }
            Self::Postgres(connection) => {
                let rows = connection.fetch_all(sql).await.expect("raw query");
                rows.iter().map(|row| row.get(column)).collect()
            }
        }
    }

    /// Reads the names of the columns of a table.
    pub async fn column_names(&mut self, table: &str) -> Vec<String> {
        let sql = match self {
            Self::Sqlite(_) => format!("SELECT name FROM pragma_table_info('{table}')"),
            Self::Postgres(_) => format!(
                "SELECT column_name::text AS name FROM information_schema.columns
                 WHERE table_schema = current_schema() AND table_name = '{table}' ORDER BY ordinal_position"
            ),
        };
        self.lines(sql, "name").await
    }

    /// Reads each row of a table as a text that names these columns, sorted.
    pub async fn rows_as_text(&mut self, table: &str, columns: &[String]) -> Vec<String> {
        let object = if matches!(self, Self::Sqlite(_)) { "json_object" } else { "json_build_object" };
        let values: Vec<String> = columns.iter().map(|column| format!("'{column}', {column}")).collect();
        let row = format!("'{table} ' || CAST({object}({}) AS text) AS row", values.join(", "));
        let mut rows = self.lines(format!("SELECT {row} FROM {table}"), "row").await;
        rows.sort_unstable();
        rows
    }

    /// Drops the schema that is the search path, table by table: a drop of all at once would hold
    /// some tables while it waits for others, and could deadlock with a process that still writes.
    pub async fn drop_schema(&mut self, schema: &str) {
        self.execute("SET client_min_messages = warning").await;
        for table in self.table_names().await {
            self.execute(format!("DROP TABLE {schema}.{table} CASCADE")).await;
        }
        self.execute(format!("DROP SCHEMA {schema} CASCADE")).await;
    }

    /// Reads the names of the tables.
    pub async fn table_names(&mut self) -> BTreeSet<String> {
        let sql = match self {
            Self::Sqlite(_) => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
            Self::Postgres(_) => "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema()",
        };
        self.lines(sql, "name").await.into_iter().collect()
    }
}
