//! Attempts of steps.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use workflow_engine::model::{RUNNING_ROW_DELAY, StepKind, Timestamp};
use workflow_engine::store::{AttemptRow, AttemptWrite};

use super::error::Failure;
use super::finish::error_text;
use super::sql::Sql;

/// Rows of attempts as a statement takes them.
pub(super) struct Rows<'w> {
    rows: Vec<AttemptRow<'w>>,
    errors: Vec<Option<String>>,
    /// The number of rows, from the first, that the table may have already.
    may_be_there: usize,
}

impl<'w> Rows<'w> {
    /// Returns the rows as a statement takes them.
    fn of(rows: Vec<AttemptRow<'w>>) -> Result<Self, Failure> {
        let errors = rows.iter().map(|row| error_text(row.write.row.error.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { may_be_there: rows.len(), rows, errors })
    }

    /// Returns the rows of these writes, those first that the table may have already.
    pub(super) fn by_novelty(writes: Vec<&'w AttemptWrite>) -> Result<Self, Failure> {
        let (new, may_be_there): (Vec<_>, Vec<_>) = AttemptRow::of(writes).into_iter().partition(is_new);
        let count = may_be_there.len();
        Ok(Self { may_be_there: count, ..Self::of(may_be_there.into_iter().chain(new).collect())? })
    }

    /// Returns `true` if the table most likely has none of the rows.
    pub(super) fn are_new(&self) -> bool {
        self.may_be_there == 0
    }

    /// Returns `true` for what most rows are: new, and each the first attempt of a step and a
    /// success.
    pub(super) fn are_usual(&self) -> bool {
        self.are_new() && self.rows.iter().all(AttemptRow::is_first_success)
    }

    /// Binds the rows, one array per column.
    pub(super) fn bind<'q>(&self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        self.bind_columns(query, &self.rows, &self.errors, &self.rows)
    }

    /// Binds the rows as `plain_batch.sql` takes them, with the number of those that the table may
    /// have. If the rows are usual, the columns that would say so are empty, because to send and
    /// read them is a large part of a row. The column of epochs is empty if all rows are new and
    /// under the first claims of their runs.
    pub(super) fn bind_by_novelty<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Result<Query<'q, Postgres, PgArguments>, Failure> {
        let (unusual, errors) = if self.are_usual() { Default::default() } else { (&self.rows[..], &self.errors[..]) };
        let is_first = |row: &AttemptRow<'_>| row.write.claim.epoch == 1;
        let with_epoch = if self.are_new() && self.rows.iter().all(is_first) { &[] } else { &self.rows[..] };
        let query = self.bind_columns(query, unusual, errors, with_epoch);
        Ok(query.bind(i32::try_from(self.may_be_there).map_err(Failure::invalid)?))
    }

    fn bind_columns<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        unusual: &[AttemptRow<'w>],
        errors: &[Option<String>],
        with_epoch: &[AttemptRow<'w>],
    ) -> Query<'q, Postgres, PgArguments> {
        let rows = &self.rows;
        query
            .bind(rows.iter().map(|row| row.write.claim.run_id.as_uuid()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.step_key.as_str()).collect::<Vec<_>>())
            .bind(unusual.iter().map(|row| row.write.row.attempt).collect::<Vec<_>>())
            .bind(unusual.iter().map(|row| row.write.row.kind.as_str()).collect::<Vec<_>>())
            .bind(unusual.iter().map(|row| row.write.row.status.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.position).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.output.as_deref()).collect::<Vec<_>>())
            .bind(errors)
            .bind(with_epoch.iter().map(|row| row.write.claim.epoch).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.started_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.completed_at.map(Timestamp::as_micros)).collect::<Vec<_>>())
    }
}

/// Writes attempts whose claims have passed the fence. Returns the number of written rows: rows
/// that were final already are not written.
pub(super) async fn record(connection: &mut PgConnection, sql: &Sql, rows: &[AttemptRow<'_>]) -> Result<u64, Failure> {
    let rows = Rows::of(rows.to_vec())?;
    let inserted = rows.bind(sql.insert_attempts.query()).execute(&mut *connection).await?.rows_affected();
    if inserted == rows.rows.len() as u64 {
        return Ok(inserted);
    }
    let updated = rows.bind(sql.update_attempts.query()).execute(connection).await?.rows_affected();
    Ok(inserted + updated)
}

/// Writes an attempt in one statement that checks the claim itself. Returns whether the claim held
/// and the row was new; if not, nothing was changed.
pub(super) async fn record_held(
    connection: &mut PgConnection,
    sql: &Sql,
    write: &AttemptWrite,
) -> Result<bool, Failure> {
    let rows = Rows::of(AttemptRow::of(vec![write]))?;
    Ok(rows.bind(sql.insert_held_attempt.query()).execute(connection).await?.rows_affected() == 1)
}

/// Returns `true` if this is most likely the first row of its attempt, because a step gets no other
/// row before it has run for a while. If its body crashed, or its commit was not answered, the
/// table may have a row all the same.
fn is_new(AttemptRow { write, started_at }: &AttemptRow<'_>) -> bool {
    let row = &write.row;
    row.kind == StepKind::Step && row.completed_at.is_some_and(|at| at < *started_at + RUNNING_ROW_DELAY)
}
