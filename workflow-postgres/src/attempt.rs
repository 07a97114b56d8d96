//! Attempts of steps.

use std::collections::HashSet;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use workflow_engine::model::{Claim, RUNNING_ROW_DELAY, StepKind, Timestamp};
use workflow_engine::store::{AttemptRow, AttemptWrite};

use super::error::Failure;
use super::finish::error_text;
use super::parts::Parts;
use super::sql::Sql;

/// Attempts as a statement takes them.
pub(super) struct Rows<'w> {
    rows: Vec<AttemptRow<'w>>,
    /// The number of leading rows that may exist already.
    may_exist: usize,
}

impl<'w> Rows<'w> {
    /// Puts the rows that may exist already before the others.
    pub(super) fn by_novelty(writes: Vec<&'w AttemptWrite>) -> Self {
        let (new, mut rows): (Vec<_>, Vec<_>) = AttemptRow::of(writes).into_iter().partition(is_new);
        let may_exist = rows.len();
        rows.extend(new);
        Self { rows, may_exist }
    }

    /// Returns `true` if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the claim of the only row; `None` if there are several or none.
    pub(super) fn only(&self) -> Option<Claim> {
        let [row] = self.rows.as_slice() else { return None };
        Some(row.write.claim)
    }

    /// Returns `true` if all rows are what most rows are: new, the first attempt of a step, and a
    /// success.
    pub(super) fn are_first_successes(&self) -> bool {
        self.may_exist == 0 && self.rows.iter().all(AttemptRow::is_first_success)
    }

    /// Binds the rows, one array per column, as `record_attempts.sql` takes them.
    pub(super) fn bind<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Result<Query<'q, Postgres, PgArguments>, Failure> {
        let rows = &self.rows;
        let errors = rows.iter().map(|row| error_text(row.write.row.error.as_ref()));
        let query = query
            .bind(rows.iter().map(|row| row.write.claim.run_id.as_uuid()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.step_key.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.attempt).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.kind.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.status.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.position).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.output.as_deref()).collect::<Vec<_>>())
            .bind(errors.collect::<Result<Vec<_>, _>>()?)
            .bind(rows.iter().map(|row| row.write.claim.epoch).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.started_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.completed_at.map(Timestamp::as_micros)).collect::<Vec<_>>());
        Ok(query.bind(i32::try_from(self.may_exist).map_err(Failure::invalid)?))
    }

    /// Binds the rows as `record_first_successes.sql` takes them.
    pub(super) fn bind_first_successes<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        let rows = &self.rows;
        query
            .bind(rows.iter().map(|row| row.write.claim.run_id.as_uuid()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.step_key.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.position).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.output.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.claim.epoch).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.started_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.write.row.completed_at.map(Timestamp::as_micros)).collect::<Vec<_>>())
    }
}

/// Returns the indexes of those of these attempts whose rows are final already.
pub(super) async fn find_final(
    connection: &mut PgConnection,
    sql: &Sql,
    attempts: &[&AttemptWrite],
) -> Result<HashSet<usize>, Failure> {
    let query = sql
        .find_final_attempts
        .query()
        .bind(attempts.iter().map(|write| write.claim.run_id.as_uuid()).collect::<Vec<_>>())
        .bind(attempts.iter().map(|write| write.row.step_key.as_str()).collect::<Vec<_>>())
        .bind(attempts.iter().map(|write| write.row.attempt).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    let index = |row: &PgRow| Ok(usize::try_from(row.try_get::<i32, _>("number")? - 1).unwrap_or(usize::MAX));
    rows.iter().map(index).collect()
}

/// Writes attempts whose claims have passed the fence. Returns the number of written rows: rows
/// that were final already are not written.
pub(super) async fn record(connection: &mut PgConnection, sql: &Sql, rows: &[AttemptRow<'_>]) -> Result<u64, Failure> {
    let rows = Rows { may_exist: rows.len(), rows: rows.to_vec() };
    let query = rows.bind(sql.parts(Parts::RECORD_ATTEMPTS).query().bind(None::<i64>))?;
    let row = query.fetch_one(connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>("recorded")?).unwrap_or(0))
}

/// Returns `true` if this is most likely the first row of its attempt: a step gets no row before it
/// has run for a while. A step whose body crashed may have one, and so may one whose commit was not
/// answered.
fn is_new(AttemptRow { write, started_at }: &AttemptRow<'_>) -> bool {
    let row = &write.row;
    row.kind == StepKind::Step && row.completed_at.is_some_and(|at| at < *started_at + RUNNING_ROW_DELAY)
}
