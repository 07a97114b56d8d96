//! Batches of the ordinary kinds: starts, attempts without effects, ends without a family, parks, claims. The question whether their
//! claims hold, their attempts, their ends and their parks are one statement, in the place of four: each is a way to the server and
//! back, on which two processes have to be scheduled.
//!
//! All is done as if every claim held. If one does not, all is rolled back, and the batch goes the long way, which says of each what
//! became of it. So does every batch of a process that has had more workers than `worker_lock.rs` remembers.

use std::collections::BTreeMap;

use sqlx::{PgConnection, Row};

use crate::backend::fence::asked_by;
use crate::backend::{AttemptWrite, ClaimRequest, Claimed, Outcome, StartOutcome, Write};
use crate::model::{Clock, Effect, NewRun, RunId, Timestamp};

use super::attempt::Rows;
use super::commit::BEGIN;
use super::error::Failure;
use super::finish::Finishes;
use super::sql::Sql;
use super::worker_lock::Workers;
use super::{claim, fence, start};

/// A batch of these kinds.
#[derive(Default)]
pub(super) struct Plain<'w> {
    starts: Vec<&'w NewRun>,
    attempts: Vec<&'w AttemptWrite>,
    finishes: Finishes,
    claims: Vec<&'w ClaimRequest>,
    /// The runs of the attempts, each with the epoch under which its writer holds it.
    held: BTreeMap<RunId, i64>,
    writes: &'w [Write],
}

impl<'w> Plain<'w> {
    /// The batch, if it is one and the locks of these workers are enough for it.
    pub(super) fn of(writes: &'w [Write], workers: &Workers) -> Option<Self> {
        let mut plain = Self { writes, ..Self::default() };
        for write in writes {
            plain.add(write)?;
        }
        // An attempt comes before the end of its claim: whoever looks at it, such as a trigger of an audit, finds the run running. Of one
        // statement everybody sees all or nothing.
        if plain.attempts.iter().any(|write| plain.finishes.holds(write.claim.run_id)) {
            return None;
        }
        for (run, epoch) in asked_by(writes) {
            // Two claims of one run need the fence to decide between them.
            let epoch = epoch?;
            if !plain.finishes.holds(run) {
                plain.held.insert(run, epoch);
            }
        }
        let writes_rows = !plain.attempts.is_empty() || plain.finishes.len() > 0;
        (writes_rows && (plain.held.is_empty() || workers.are_all())).then_some(plain)
    }

    fn add(&mut self, write: &'w Write) -> Option<()> {
        match write {
            Write::Start(run) => self.starts.push(run),
            Write::Attempt(write) if matches!(write.effect, Effect::None) => self.attempts.push(write),
            // What cannot be stored, or lets go of a run twice, is answered the long way.
            Write::End(write) if !write.has_family() => {
                self.finishes.end(write).ok().filter(|added| *added)?;
            }
            Write::Park(write) => drop(self.finishes.park(write).ok().filter(|added| *added)?),
            Write::Claim(request) => self.claims.push(request),
            _ => return None,
        }
        Some(())
    }

    /// What begins its transaction.
    pub(super) fn begin(&self, workers: &Workers) -> String {
        if self.held.is_empty() { BEGIN.to_owned() } else { workers.begin() }
    }

    /// Applies it in a transaction that was begun so, in the order of the contract. `None`: a claim does not hold, and the transaction
    /// must be rolled back.
    pub(super) async fn apply(
        self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        workers: &Workers,
    ) -> Result<Option<Vec<Outcome>>, Failure> {
        let (writes, starts, claims) = (self.writes, self.starts, self.claims);
        let started = match &starts[..] {
            [] => Vec::new(),
            starts => start::start(connection, sql, clock, starts).await?,
        };
        let rows = Rows::of(self.attempts)?;
        let query = sql.plain_batch.query().bind(clock.fixed().map(Timestamp::as_micros));
        let query = query.bind(fence::ids(self.held.keys())).bind(self.held.values().copied().collect::<Vec<_>>());
        let query = self.finishes.bind(rows.bind(query.bind(workers.uuids())));
        let row = query.fetch_one(&mut *connection).await?;
        let count = |column: &str| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        if count("lost")? > 0 || count("finished")? < self.finishes.len() {
            return Ok(None);
        }
        rows.update(connection, sql, count("recorded")?).await?;
        let mut claimed = Vec::new();
        for request in claims {
            claimed.push(claim::claim(connection, sql, clock, request).await?);
        }
        outcomes(writes, started, claimed).map(Some)
    }
}

/// What became of each write of a batch whose claims hold.
fn outcomes(writes: &[Write], started: Vec<StartOutcome>, claimed: Vec<Claimed>) -> Result<Vec<Outcome>, Failure> {
    let (mut started, mut claimed) = (started.into_iter(), claimed.into_iter());
    let outcome = |write: &Write| match write {
        Write::Start(_) => started.next().map(Outcome::Started),
        Write::Claim(_) => claimed.next().map(Outcome::Claimed),
        _ => Some(Outcome::Applied),
    };
    let outcomes: Option<_> = writes.iter().map(outcome).collect();
    outcomes.ok_or_else(|| Failure::corrupt("a write has no outcome"))
}
