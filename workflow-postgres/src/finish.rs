//! Ends and parks of runs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, Clock, RunId, StoredError, Timestamp};
use workflow_engine::store::{EndWrite, ParkWrite, RunEnd};

use super::error::Failure;
use super::parts::Parts;
use super::sql::Sql;

/// The ends and parks of a batch, one per run, sorted by run id.
#[derive(Default)]
pub(super) struct Finishes<'w>(BTreeMap<RunId, Finish<'w>>);

/// The end or park of one run.
struct Finish<'w> {
    claim: Claim,
    status: &'static str,
    output: Option<&'w str>,
    error: Option<String>,
    /// Of a park: the `wakes` that the writer has seen, and the time until which the run waits.
    park: Option<(i64, Timestamp)>,
    reset_crashes: bool,
    until_deadline: bool,
}

impl<'w> Finishes<'w> {
    /// Adds an end. Returns `false` if the batch releases the run already.
    pub(super) fn end(&mut self, write: &'w EndWrite) -> Result<bool, Failure> {
        let (output, error) = match &write.end {
            RunEnd::Succeeded(output) => (Some(output.as_str()), None),
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
    pub(super) fn contains(&self, run_id: RunId) -> bool {
        self.0.contains_key(&run_id)
    }

    fn add(&mut self, finish: Finish<'w>) -> bool {
        match self.0.entry(finish.claim.run_id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(finish);
                true
            }
        }
    }

    /// Returns the runs.
    pub(super) fn runs(&self) -> Vec<RunId> {
        self.0.keys().copied().collect()
    }

    /// Returns `true` if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if there is a park among them.
    pub(super) fn has_parks(&self) -> bool {
        self.0.values().any(|finish| finish.park.is_some())
    }

    /// Returns `true` if each of them is an end without an error, as most are.
    pub(super) fn are_plain_ends(&self) -> bool {
        !self.has_parks() && self.0.values().all(|finish| finish.error.is_none())
    }

    /// Binds them, one array per column, as `end_runs.sql` takes them.
    pub(super) fn bind_plain_ends<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        bind_common(query, &self.rows())
    }

    /// Binds them, one array per column, as `release_claims.sql` takes them. Without a park, the
    /// columns of parks are empty arrays, and their rows read NULL. The same holds for errors.
    pub(super) fn bind<'q>(&self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        let rows = self.rows();
        let parks: &[&Finish<'w>] = if self.has_parks() { &rows } else { &[] };
        let errors: &[&Finish<'w>] = if rows.iter().any(|row| row.error.is_some()) { &rows } else { &[] };
        let wakes = |row: &&Finish<'w>| row.park.map(|(wakes, _)| wakes).filter(|_| !planted("park-without-recheck"));
        bind_common(query, &rows)
            .bind(errors.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
            .bind(parks.iter().map(wakes).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.park.map(|(_, until)| until.as_micros())).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.reset_crashes).collect::<Vec<_>>())
            .bind(parks.iter().map(|row| row.until_deadline).collect::<Vec<_>>())
    }

    fn rows(&self) -> Vec<&Finish<'w>> {
        let mut rows: Vec<&Finish<'w>> = self.0.values().collect();
        if planted("unsorted-update") {
            fastrand::shuffle(&mut rows);
        }
        rows
    }
}

fn bind_common<'q>(query: Query<'q, Postgres, PgArguments>, rows: &[&Finish<'_>]) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(rows.iter().map(|row| row.claim.run_id.as_uuid()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.claim.epoch).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.status).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.output).collect::<Vec<_>>())
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
    if finishes.is_empty() {
        return Ok(());
    }
    let query = sql.parts(Parts::RELEASE_CLAIMS).query().bind(clock.fixed().map(Timestamp::as_micros));
    finishes.bind(query).execute(connection).await?;
    Ok(())
}

/// Returns the text in which an error is stored.
pub(super) fn error_text(error: Option<&StoredError>) -> Result<Option<String>, Failure> {
    error.map(serde_json::to_string).transpose().map_err(Failure::invalid)
}
