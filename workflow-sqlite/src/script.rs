//! Scripts: several statements that reach the database's thread in one call.

use futures::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Either, Executor, Row, Sqlite, SqliteConnection};

use workflow_engine::store::DatabaseError;

use super::error::During;

/// The answer of one statement of a script.
pub(super) struct Answer {
    pub(super) rows: Vec<SqliteRow>,
    pub(super) affected: u64,
}

impl Answer {
    /// Returns the texts of rows with one column, without the NULLs.
    pub(super) fn texts(&self) -> Result<Vec<String>, sqlx::Error> {
        let texts = self.rows.iter().map(|row| row.try_get::<Option<String>, _>(0));
        texts.filter_map(Result::transpose).collect()
    }
}

/// Executes a script, up to the first statement that fails. Passes the answer of each statement to
/// `read` before it waits for the next one. `operations` says what each statement does.
pub(super) async fn run(
    connection: &mut SqliteConnection,
    script: Query<'_, Sqlite, SqliteArguments>,
    operations: &[&'static str],
    mut read: impl FnMut(Answer),
) -> Result<(), DatabaseError> {
    let mut answered = 0;
    let mut rows = Vec::new();
    let mut items = connection.fetch_many(script);
    loop {
        let operation = operations.get(answered).copied().unwrap_or("end a script");
        match items.try_next().await.during(operation)? {
            Some(Either::Right(row)) => rows.push(row),
            Some(Either::Left(done)) => {
                read(Answer { rows: std::mem::take(&mut rows), affected: done.rows_affected() });
                answered += 1;
            }
            None => return Ok(()),
        }
    }
}
