//! The fast path, for batches of ordinary writes: starts, attempts without effects, ends of runs
//! without a parent or children, parks, and one claim. A batch needs two round trips to the
//! database's thread instead of one per statement. Each round trip schedules two threads.
//!
//! The script applies all writes as if every claim held and every lane had a row, and checks the
//! claims too. If a claim does not hold, a lane is missing or the queue of a new run has bounds,
//! the transaction is rolled back and the batch takes the slow path. A single attempt or end is one
//! statement that checks its claim itself. So it needs neither `BEGIN` nor `COMMIT`, and one round
//! trip.

use std::cell::Cell;

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};

use workflow_engine::faults::{altered, failpoint_error, planted};
use workflow_engine::model::{Effect, Timestamp};
use workflow_engine::store::{
    Asked, AttemptRow, ClaimRequest, Claimed, DatabaseError, DueRuns, Fence, Outcome, Outcomes, Releases, SortedBatch,
    Write, asked_by_unless, claim_limited, claim_places,
};

use super::claim::{DueRun, Taken};
use super::error::During;
use super::fence_cache::FenceCache;
use super::rows::{MOST_ROWS, Parameters, RowsStatement};
use super::slow_path::SlowPath;
use super::start::Starts;
use super::writer::WriterGuard;
use super::{attempt, claim, finish, sql};

const START: &str = "start runs";
const CHECK: &str = "check claims";
const RECORD: &str = "record step attempts";
const END: &str = "end runs";
const PARK: &str = "park runs";
const CLAIM: &str = "claim runs";

/// The first script of a batch, for any number of attempts.
struct Script {
    statements: RowsStatement,
    /// The operation of each statement, without the statements that begin the transaction.
    operations: &'static [&'static str],
    /// Adds the attempts as the statement that records them takes them.
    add_attempts: fn(&mut Parameters, &[AttemptRow<'_>]) -> Result<(), DatabaseError>,
}

static BATCH: Script = Script {
    statements: RowsStatement::new(|| {
        let text = altered("deferred-begin", sql::FAST_BATCH, "IMMEDIATE", "DEFERRED");
        altered("fast-path-final-overwritten", text, "WHERE step_attempts.status = 'running'", "")
    }),
    operations: &[START, CHECK, RECORD, END, PARK, CLAIM],
    add_attempts: attempt::add,
};

static BATCH_OF_WORK: Script = Script {
    statements: RowsStatement::new(|| altered("deferred-begin", sql::FAST_BATCH_OF_WORK, "IMMEDIATE", "DEFERRED")),
    operations: &[RECORD, END, CLAIM],
    add_attempts: attempt::add_successes,
};

/// The result of the fast path.
pub(super) enum Fast {
    /// The batch is committed.
    Done(Vec<Outcome>),
    /// The batch needs the slow path. Nothing was sent.
    NotApplicable,
    /// A claim does not hold, the fence cache was old, or the lane of a new run has no row or its
    /// queue has bounds. Nothing was changed, but a transaction may be open, which must be rolled
    /// back.
    Refused,
}

/// Applies a batch and commits it, if the fast path takes it.
///
/// `now` is read before the write lock is taken, for which another process may make the batch wait.
/// So the times of the batch can be older than committed ones. A lease counts from a moment before
/// its claim was sent, so no lease lasts longer because of this.
pub(super) async fn fast_path(
    writer: &mut WriterGuard,
    writes: &[Write],
    now: Timestamp,
) -> Result<Fast, DatabaseError> {
    if is_alone(writes) {
        return apply_alone(writer, writes, now).await;
    }
    let Some(batch) = FastBatch::prepare(writes, writer.fence_cache(), now)? else { return Ok(Fast::NotApplicable) };
    match batch.apply(writer).await {
        Ok(Some(applied)) => applied.commit(writer).await.map(Fast::Done),
        Ok(None) => Ok(Fast::Refused),
        Err(error) => writer.end(Err(error)).await,
    }
}

fn is_alone(writes: &[Write]) -> bool {
    matches!(writes, [write @ (Write::Attempt(_) | Write::End(_))] if is_ordinary(write))
}

/// Applies a single write. If its statement changes nothing, its claim does not hold or its row was
/// final already.
async fn apply_alone(writer: &mut WriterGuard, writes: &[Write], now: Timestamp) -> Result<Fast, DatabaseError> {
    let statement = async |connection: &mut SqliteConnection| match writes {
        [Write::Attempt(write)] => attempt::record_held(connection, write).await,
        [Write::End(write)] => finish::end_held(connection, write, now).await,
        _ => Ok(false),
    };
    if !writer.alone(statement).await? {
        return Ok(Fast::Refused);
    }
    writer.keep(writes, Asked::new(), &[]);
    Ok(Fast::Done(vec![Outcome::Applied]))
}

fn is_ordinary(write: &Write) -> bool {
    match write {
        Write::Start(run) => !run.may_take_key() && run.single.is_none(),
        Write::Park(_) => true,
        Write::Claim(_) => true,
        Write::Attempt(write) => matches!(write.effect, Effect::None),
        Write::End(write) => write.is_alone(),
        _ => false,
    }
}

/// Returns `true` if all writes are ordinary, with at most one claim, and with at most as many
/// attempts as one statement takes. `asked` has the claims that must be checked. Two claims of one
/// run need the fence, which decides between them.
fn is_fast(writes: &[Write], asked: &Asked) -> bool {
    let count = |kind: fn(&Write) -> bool| writes.iter().filter(|write| kind(write)).count();
    count(|write| matches!(write, Write::Claim(_))) <= 1
        && count(|write| matches!(write, Write::Attempt(_))) <= MOST_ROWS
        && writes.iter().all(is_ordinary)
        && asked.values().all(Option::is_some)
}

/// A batch that is ready for the database.
struct FastBatch<'a> {
    now: Timestamp,
    writes: &'a [Write],
    starts: Starts<'a>,
    new_runs: Option<String>,
    /// The claims that must be checked, because the cache lacks them.
    asked: Asked,
    /// Some claims were found in the cache, before the transaction began.
    relies_on_cache: bool,
    attempts: Vec<AttemptRow<'a>>,
    ends: Option<String>,
    parks: Option<String>,
    claim: Option<(usize, &'a ClaimRequest)>,
    outcomes: Outcomes,
}

/// A batch that was applied and is not committed yet.
struct Applied<'a> {
    now: Timestamp,
    writes: &'a [Write],
    asked: Asked,
    claim: Option<DueClaim>,
    /// A claim that looks at limits, with its place in the batch.
    limited: Option<(usize, &'a ClaimRequest)>,
    outcomes: Outcomes,
}

/// A claim that found due runs.
struct DueClaim {
    place: usize,
    due: Vec<DueRun>,
    /// Claims the runs and commits.
    script: Query<'static, Sqlite, SqliteArguments>,
}

impl<'a> FastBatch<'a> {
    /// Prepares a batch. Returns `None` if it must take the slow path.
    fn prepare(writes: &'a [Write], fence_cache: &FenceCache, now: Timestamp) -> Result<Option<Self>, DatabaseError> {
        let relies_on_cache = Cell::new(false);
        let is_known = |claim| {
            let holds = fence_cache.holds(claim);
            relies_on_cache.set(relies_on_cache.get() || holds);
            holds
        };
        let asked = asked_by_unless(writes, is_known);
        if !is_fast(writes, &asked) {
            return Ok(None);
        }
        let mut outcomes = Outcomes::of(writes.len());
        let releases = Releases::of(&SortedBatch::of(writes), &mut Fence::default(), &mut outcomes);
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
            relies_on_cache: relies_on_cache.get(),
            attempts: AttemptRow::of(attempts),
            ends: finish::end_rows(&releases.ends)?,
            parks: finish::park_rows(&releases.parks)?,
            claim,
            outcomes,
        }))
    }

    /// Begins a transaction and applies the batch. Returns `None` if a claim does not hold, if the
    /// cache turned out to be old, or if the lane of a new run has no row or its queue has bounds.
    /// The transaction must then be rolled back.
    async fn apply(mut self, writer: &mut WriterGuard) -> Result<Option<Applied<'a>>, DatabaseError> {
        let script = self.script();
        let parameters = self.parameters(script)?;
        let statements = script.statements.query(self.attempts.len(), parameters);
        let answers = writer.begin_with(statements, script.operations).await?;
        if answers.len() != script.operations.len() {
            return Ok(None);
        }
        let answer =
            |to| script.operations.iter().zip(&answers).find_map(|(what, answer)| (*what == to).then_some(answer));
        let is_refused = answer(CHECK).is_some_and(|refused| !refused.rows.is_empty());
        let is_refused = is_refused && !planted("fast-path-unfenced-end");
        if is_refused || self.relies_on_cache && !writer.fence_cache().is_undisturbed() {
            return Ok(None);
        }
        let inserted = answer(START).map_or(0, |inserted| inserted.affected);
        if !self.starts.tell(writer.connection()?, inserted, &mut self.outcomes).await? {
            return Ok(None);
        }
        let limited = self.claim.filter(|(_, request)| request.is_limited());
        let claim = match self.claim.filter(|_| limited.is_none()).zip(answer(CLAIM)) {
            Some(((place, request), due)) => {
                self.outcomes.set(
                    place,
                    Outcome::Claimed(Claimed {
                        runs: Vec::new(),
                        held_back: Vec::new(),
                        full_gates: Vec::new(),
                        next_at: None,
                        now: self.now,
                    }),
                );
                let due = claim::due_of(
                    &due.texts().during(CLAIM)?,
                    &claim_places(request, &[]),
                    request.limit,
                    DueRuns::All,
                )?;
                let take = || claim::take(sql::CLAIM_AND_COMMIT, request, &due, self.now);
                let script = (!due.is_empty()).then(take).transpose()?;
                script.map(|script| DueClaim { place, due, script })
            }
            None => None,
        };
        failpoint_error("store.in_transaction")?;
        let Self { now, writes, asked, outcomes, .. } = self;
        Ok(Some(Applied { now, writes, asked, claim, limited, outcomes }))
    }

    /// Returns the shorter script if it covers all writes: what a worker at work writes.
    fn script(&self) -> &'static Script {
        let has_other_parts = self.new_runs.is_some() || !self.asked.is_empty() || self.parks.is_some();
        let is_work = !has_other_parts && self.attempts.iter().all(AttemptRow::is_first_success);
        if is_work { &BATCH_OF_WORK } else { &BATCH }
    }

    /// Returns the parameters of this script, in the order of its operations.
    fn parameters(&mut self, script: &Script) -> Result<Parameters, DatabaseError> {
        let now = self.now.as_micros();
        let mut parameters = Parameters::default();
        for operation in script.operations {
            match *operation {
                START => parameters.add(now)?.add(self.new_runs.take()).map(drop)?,
                CHECK => parameters.add(serde_json::to_string(&self.asked).during(CHECK)?).map(drop)?,
                RECORD => (script.add_attempts)(&mut parameters, &self.attempts)?,
                END => parameters.add(now)?.add(self.ends.take()).map(drop)?,
                PARK => parameters.add(now)?.add(self.parks.take()).map(drop)?,
                _ => {
                    let limit = self.claim.map_or(0, |(_, request)| request.limit);
                    // A claim that looks at limits finds its runs itself.
                    let request = self.claim.map(|(_, request)| request).filter(|request| !request.is_limited());
                    let lanes = request.map(|request| claim::lanes_of(&claim_places(request, &[]))).transpose()?;
                    parameters.add(now)?.add(limit)?.add(now)?.add(limit)?.add(lanes).map(drop)?;
                }
            }
        }
        Ok(parameters)
    }
}

impl Applied<'_> {
    /// Claims the runs that were found, and commits.
    async fn commit(self, writer: &mut WriterGuard) -> Result<Vec<Outcome>, DatabaseError> {
        let Self { now, writes, asked, claim, limited, mut outcomes } = self;
        if let Some((place, request)) = limited {
            let claimed = claim_limited(&mut SlowPath::new(writer.connection()?, now), request).await;
            let claimed = writer.end(claimed).await?;
            writer.keep(writes, asked, &claimed.runs);
            outcomes.set(place, Outcome::Claimed(claimed));
            return Ok(outcomes.complete()?);
        }
        match claim {
            Some(DueClaim { place, due, script }) => {
                let taken = |rows: &[_]| Taken::of(rows, &due);
                let taken = writer.end_with(script, &[CLAIM, CLAIM, "commit a transaction"], taken).await?;
                // The batch is committed, so an unreadable run must not fail its other writes.
                let runs = match (taken, writer.connection()) {
                    (Ok(taken), Ok(connection)) => taken.complete(connection).await,
                    (Err(error), _) | (_, Err(error)) => Err(error),
                };
                if let Ok(runs) = &runs {
                    writer.keep(writes, asked, runs);
                }
                let claimed = runs.map(|runs| {
                    Outcome::Claimed(Claimed {
                        runs,
                        held_back: Vec::new(),
                        full_gates: Vec::new(),
                        next_at: None,
                        now,
                    })
                });
                outcomes.set(place, claimed.unwrap_or_else(Outcome::Refused));
            }
            // Without a change the transaction writes nothing, so an idle poll costs no sync of the
            // disk.
            None => {
                writer.end(Ok(())).await?;
                writer.keep(writes, asked, &[]);
            }
        }
        Ok(outcomes.complete()?)
    }
}
