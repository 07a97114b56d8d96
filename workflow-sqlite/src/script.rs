//! Several statements that go to the database's thread together.

use futures::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Either, Executor, Row, Sqlite, SqliteConnection};

use workflow_engine::store::DatabaseError;

use super::error::During;

/// What one statement of a script answered.
pub(super) struct Answer {
    pub(super) rows: Vec<SqliteRow>,
    pub(super) affected: u64,
}

impl Answer {
    /// The texts in its rows, which have one column; NULL is none.
    pub(super) fn texts(&self) -> Result<Vec<String>, sqlx::Error> {
        let texts = self.rows.iter().map(|row| row.try_get::<Option<String>, _>(0));
        texts.filter_map(Result::transpose).collect()
    }
}

/// Runs a script, and has what each statement answered read before it waits for the next one, up to the first that fails. `operations`:
/// what each of them does.
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
