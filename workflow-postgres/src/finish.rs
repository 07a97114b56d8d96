//! Ends and parks of claimed runs.

use std::collections::BTreeMap;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, Clock, RunId, StoredError, Timestamp};
use workflow_engine::store::{EndWrite, ParkWrite, RunEnd};

use super::error::Failure;
use super::sql::Sql;

/// The ends and parks of a batch, one per run, sorted by run.
#[derive(Default)]
pub(super) struct Finishes(BTreeMap<RunId, Finish>);

/// The end or park of one run.
struct Finish {
    claim: Claim,
    status: &'static str,
    output: Option<String>,
    error: Option<String>,
    /// Of a park: the `wakes` that the writer has seen, and the time until which the run waits.
    park: Option<(i64, Timestamp)>,
    reset_crashes: bool,
    until_deadline: bool,
}

impl Finishes {
    /// Adds an end. Returns `false` if the batch releases the run already.
    pub(super) fn end(&mut self, write: &EndWrite) -> Result<bool, Failure> {
        let (output, error) = match &write.end {
            RunEnd::Succeeded(output) => (Some(output.clone()), None),
            RunEnd::Failed(error) => (None, error_text(Some(error))?),
            RunEnd::Canceled => (None, None),
        };
        let status = write.end.status().as_str();
        let finish = Finish {
            claim: write.claim,
            status,
            output,
            error,
            park: None,
            reset_crashes: false,
            until_deadline: false,
        };
        Ok(self.add(finish))
    }

    /// Adds a park. Returns `false` if the batch releases the run already.
    pub(super) fn park(&mut self, write: &ParkWrite) -> Result<bool, Failure> {
        Ok(self.add(Finish {
            claim: write.claim,
            status: "parked",
            output: None,
            error: error_text(write.error.as_ref())?,
            park: Some((write.wakes, write.until)),
            reset_crashes: write.reset_crashes,
            until_deadline: write.until_deadline,
        }))
    }

    /// Returns `true` if the batch releases this run.
    pub(super) fn holds(&self, run_id: RunId) -> bool {
        self.0.contains_key(&run_id)
    }

    fn add(&mut self, finish: Finish) -> bool {
        let run_id = finish.claim.run_id;
        if self.0.contains_key(&run_id) {
            return false;
        }
        self.0.insert(run_id, finish);
        true
    }

    /// Returns the runs.
    pub(super) fn runs(&self) -> Vec<RunId> {
        self.0.keys().copied().collect()
    }

    /// Returns `true` without ends and parks.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if there is a park among them.
    pub(super) fn has_parks(&self) -> bool {
        self.0.values().any(|finish| finish.park.is_some())
    }

    /// Returns `true` for what most batches have: ends without an error, and no parks.
    pub(super) fn are_usual(&self) -> bool {
        !self.has_parks() && self.0.values().all(|finish| finish.error.is_none())
    }

    /// Binds the ends and parks, one array per column. An array without any value is empty, such as
    /// those of parks without a park: the rows then read NULL.
    pub(super) fn bind<'q>(&self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        let mut rows: Vec<&Finish> = self.0.values().collect();
        if planted("unsorted-update") {
            fastrand::shuffle(&mut rows);
        }
        let parks: Vec<&Finish> = if self.has_parks() { rows.clone() } else { Vec::new() };
        let errors: Vec<&Finish> = if rows.iter().any(|row| row.error.is_some()) { rows.clone() } else { Vec::new() };
        let wakes = |row: &&Finish| row.park.map(|(wakes, _)| wakes).filter(|_| !planted("park-without-recheck"));
        query
            .bind(rows.iter().map(|row| row.claim.run_id.as_uuid()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.claim.epoch).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.status).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.output.as_deref()).collect::<Vec<_>>())
            .bind(errors.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
            .bind(parks.iter().map(wakes).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.park.map(|(_, until)| until.as_micros())).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.reset_crashes).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.until_deadline).collect::<Vec<_>>())
    }

    /// Ends and parks the runs. Returns the number of claims that held.
    pub(super) async fn apply(self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<u64, Failure> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let query = sql.finish_claims.query().bind(clock.fixed().map(Timestamp::as_micros));
        Ok(self.bind(query).execute(connection).await?.rows_affected())
    }
}

/// Ends and parks runs whose claims have passed the fence, in one statement.
pub(super) async fn finish(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    ends: &[&EndWrite],
    parks: &[&ParkWrite],
) -> Result<(), Failure> {
    let mut finishes = Finishes::default();
    for write in ends {
        finishes.end(write)?;
    }
    for write in parks {
        finishes.park(write)?;
    }
    finishes.apply(connection, sql, clock).await.map(drop)
}

/// Returns the text in which an error is stored.
pub(super) fn error_text(error: Option<&StoredError>) -> Result<Option<String>, Failure> {
    error.map(serde_json::to_string).transpose().map_err(Failure::invalid)
}
