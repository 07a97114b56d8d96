//! Batches of the ordinary kinds: starts, attempts without effects, ends without a family, parks, one claim. They take two ways to
//! the database's thread and back, in the place of one a statement: on each of them, two threads have to be scheduled.
//!
//! All is done as if every claim held, and asked in the same script whether each does; if one does not, all is rolled back, and
//! the batch goes the long way. A lone attempt or end takes one way.

use std::cell::Cell;

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};

use crate::backend::attempt_row::AttemptRow;
use crate::backend::fence::{Asked, Fence, asked_by_unless};
use crate::backend::outcomes::Outcomes;
use crate::backend::{BackendError, ClaimRequest, Claimed, Outcome, Write};
use crate::failpoint::failpoint_error;
use crate::model::{Effect, RunId, Timestamp};
use crate::planted::altered;

use super::error::During;
use super::known_claims::KnownClaims;
use super::rows::{MOST_ROWS, Parameters, RowsStatement};
use super::start::Starts;
use super::writer::WriterGuard;
use super::{attempt, claim, finish, sql};

/// What the statements of `PLAIN_BATCH` do, after the beginning.
const OPERATIONS: [&str; 6] = ["start runs", "check claims", "record step attempts", "end runs", "park runs", CLAIM];
const CLAIM: &str = "claim runs";

/// `PLAIN_BATCH` for any number of attempts.
static BATCH: RowsStatement =
    RowsStatement::new(|| altered("deferred-begin", sql::PLAIN_BATCH, "IMMEDIATE", "DEFERRED"));

/// `PLAIN_BATCH_OF_SUCCESSES` for any number of them.
static BATCH_OF_SUCCESSES: RowsStatement =
    RowsStatement::new(|| altered("deferred-begin", sql::PLAIN_BATCH_OF_SUCCESSES, "IMMEDIATE", "DEFERRED"));

/// Whether this is one ordinary attempt or end: one statement, and so its own transaction. Two more ways to the database's thread
/// and back were most of what a lone step took beside the sync of the disk (`history`).
pub(super) fn is_lone(writes: &[Write]) -> bool {
    matches!(writes, [write @ (Write::Attempt(_) | Write::End(_))] if is_ordinary(write))
}

/// Applies it. `None`: its claim does not hold, or its row was final already, and it changed nothing. `now` comes before the write
/// lock, which only the statement takes: an end may be a moment older than one of another process that was before it.
pub(super) async fn apply_lone(
    writer: &mut WriterGuard,
    writes: &[Write],
    now: Timestamp,
) -> Result<Option<Vec<Outcome>>, BackendError> {
    let statement = async |connection: &mut SqliteConnection| match writes {
        [Write::Attempt(write)] => attempt::record_held(connection, write).await,
        [Write::End(write)] => finish::end_held(connection, write, now).await,
        _ => Ok(false),
    };
    Ok(writer.alone(statement).await?.then(|| vec![Outcome::Applied]))
}

fn is_ordinary(write: &Write) -> bool {
    match write {
        Write::Start(_) | Write::Park(_) | Write::Claim(_) => true,
        Write::Attempt(write) => matches!(write.effect, Effect::None),
        Write::End(write) => !write.has_family(),
        _ => false,
    }
}

/// Whether these are all of those kinds, and no more attempts than one statement takes. `asked`: what they ask; two claims of one run
/// need the fence to decide between them.
fn is_plain(writes: &[Write], asked: &Asked) -> bool {
    let count = |kind: fn(&Write) -> bool| writes.iter().filter(|write| kind(write)).count();
    count(|write| matches!(write, Write::Claim(_))) <= 1
        && count(|write| matches!(write, Write::Attempt(_))) <= MOST_ROWS
        && writes.iter().all(is_ordinary)
        && asked.values().all(Option::is_some)
}

/// What a plain batch says to the database.
pub(super) struct Plain<'a> {
    now: Timestamp,
    writes: &'a [Write],
    starts: Starts<'a>,
    new_runs: Option<String>,
    /// What nobody knows of its claims.
    asked: Asked,
    /// It relies on what was known before it began.
    relies_on_known: bool,
    attempts: Vec<AttemptRow<'a>>,
    ends: Option<String>,
    parks: Option<String>,
    claim: Option<(usize, &'a ClaimRequest)>,
    outcomes: Outcomes,
}

/// A plain batch that was applied and is not committed.
pub(super) struct Applied<'a> {
    now: Timestamp,
    writes: &'a [Write],
    asked: Asked,
    claim: Option<DueClaim>,
    outcomes: Outcomes,
}

/// A claim that has found runs.
struct DueClaim {
    place: usize,
    due: Vec<RunId>,
    /// Claims them and commits.
    script: Query<'static, Sqlite, SqliteArguments>,
}

impl<'a> Plain<'a> {
    /// Makes it ready, if it is one. `now` comes before the write lock, for which another process may make it wait: its times may then be older
    /// than some that are committed. A lease is counted from before its claim was sent, so none is longer by that.
    pub(super) fn prepare(
        writes: &'a [Write],
        known: &KnownClaims,
        now: Timestamp,
    ) -> Result<Option<Self>, BackendError> {
        let relies_on_known = Cell::new(false);
        let is_known = |claim| {
            let holds = known.holds(claim);
            relies_on_known.set(relies_on_known.get() || holds);
            holds
        };
        let asked = asked_by_unless(writes, is_known);
        if !is_plain(writes, &asked) {
            return Ok(None);
        }
        let mut outcomes = Outcomes::of(writes);
        let mut fence = Fence::default();
        let mut attempts = Vec::new();
        for (place, write) in writes.iter().enumerate() {
            if let Write::Attempt(write) = write {
                attempts.push(write);
                outcomes.set(place, Outcome::Applied);
            }
        }
        let starts = Starts::of(writes);
        let claim = writes.iter().enumerate().find_map(|(place, write)| match write {
            Write::Claim(request) => Some((place, request)),
            _ => None,
        });
        Ok(Some(Self {
            now,
            writes,
            new_runs: starts.rows(now)?,
            starts,
            asked,
            relies_on_known: relies_on_known.get(),
            attempts: AttemptRow::of(attempts),
            ends: finish::ends(writes, &mut fence, &mut outcomes)?,
            parks: finish::parks(writes, &mut fence, &mut outcomes)?,
            claim,
            outcomes,
        }))
    }

    /// Applies it, in a transaction that this begins. `None`: a claim does not hold, or nobody knows, and the transaction must be
    /// rolled back.
    pub(super) async fn apply(mut self, writer: &mut WriterGuard) -> Result<Option<Applied<'a>>, BackendError> {
        let now = self.now.as_micros();
        let (limit, lanes) = match self.claim {
            Some((_, request)) => (request.limit, Some(claim::lanes_of(request)?)),
            None => (0, None),
        };
        let mut parameters = Parameters::default();
        parameters.add(now)?.add(self.new_runs)?.add(serde_json::to_string(&self.asked).during("check claims")?)?;
        let batch = if self.attempts.iter().all(AttemptRow::is_first_success) {
            attempt::add_successes(&mut parameters, &self.attempts)?;
            &BATCH_OF_SUCCESSES
        } else {
            attempt::add(&mut parameters, &self.attempts)?;
            &BATCH
        };
        parameters.add(now)?.add(self.ends)?.add(now)?.add(self.parks)?.add(now)?.add(limit)?;
        parameters.add(now)?.add(limit)?.add(lanes)?;
        let script = batch.query(self.attempts.len(), parameters);
        let answers = writer.begin_with(script, &OPERATIONS).await?;
        let [inserted, refused, _attempts, _ends, _parks, due] = &answers[..] else {
            return Ok(None);
        };
        if !refused.rows.is_empty() || self.relies_on_known && !writer.known().is_undisturbed() {
            return Ok(None);
        }
        self.starts.tell(writer.connection()?, inserted.affected, &mut self.outcomes).await?;
        let claim = match self.claim {
            Some((place, request)) => {
                self.outcomes.set(place, Outcome::Claimed(Claimed { runs: Vec::new(), now: self.now }));
                let due = claim::due_of(&due.texts().during(CLAIM)?, request)?;
                let take = || claim::take(sql::CLAIM_AND_COMMIT, request, &due, self.now);
                let script = (!due.is_empty()).then(take).transpose()?;
                script.map(|script| DueClaim { place, due, script })
            }
            None => None,
        };
        failpoint_error("backend.in_transaction")?;
        Ok(Some(Applied { now: self.now, writes: self.writes, asked: self.asked, claim, outcomes: self.outcomes }))
    }
}

impl Applied<'_> {
    /// Claims and commits.
    pub(super) async fn commit(self, mut writer: WriterGuard) -> Result<Vec<Outcome>, BackendError> {
        let Self { now, writes, asked, claim, mut outcomes } = self;
        match claim {
            Some(DueClaim { place, due, script }) => {
                let claimed_of = |rows: &[_]| claim::claimed_of(rows, &due);
                // It is committed: a run that cannot be understood must not make the rest of the batch look as if it were not.
                let runs = writer.end_with(script, &[CLAIM, "commit a transaction"], claimed_of).await?;
                if let Ok(runs) = &runs {
                    writer.keep(writes, asked, runs);
                }
                let claimed = runs.map(|runs| Outcome::Claimed(Claimed { runs, now }));
                outcomes.set(place, claimed.unwrap_or_else(Outcome::Refused));
            }
            // Without a change the transaction writes nothing, so an idle poll costs no sync of the disk.
            None => {
                writer.end(Ok(())).await?;
                writer.keep(writes, asked, &[]);
            }
        }
        outcomes.complete()
    }
}
