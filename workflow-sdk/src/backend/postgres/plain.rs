//! Batches of the ordinary kinds: starts, attempts without effects, ends without a family, parks, claims. The question whether their
//! claims hold, their attempts, their ends and parks, and mostly a claim are one statement, which is a transaction of its own: each
//! statement is a way to the server and back, on which two processes have to be scheduled, and so are BEGIN and COMMIT. Starts come
//! before it, and a claim that must see what it makes due comes after it, in one transaction with it.
//!
//! All is done as if every claim held. If one does not, nothing is, and the batch goes the long way, which says of each what
//! became of it. So does every batch of a process that has had more workers than `worker_lock.rs` remembers.

use std::collections::BTreeMap;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::backend::fence::asked_by;
use crate::backend::{AttemptWrite, ClaimRequest, Claimed, EndWrite, Outcome, ParkWrite, StartOutcome, Write};
use crate::model::{Clock, Effect, NewRun, RunId, Timestamp};

use super::attempt::Rows;
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
        let writes_rows = !plain.attempts.is_empty() || !plain.finishes.is_empty();
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

    /// Whether one statement applies it. A claim in it sees no run that the same statement makes due.
    pub(super) fn is_one_statement(&self) -> bool {
        self.starts.is_empty() && (self.claims.is_empty() || self.claims.len() == 1 && !self.finishes.has_parks())
    }

    /// Applies it, if it is one statement. `None`: a claim does not hold, and nothing was changed. An outcome that is missing is that of
    /// an end or a park which did not come about, beside others that did.
    pub(super) async fn apply(
        self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        workers: &Workers,
    ) -> Result<Option<Vec<Option<Outcome>>>, Failure> {
        let (writes, request) = (self.writes, self.claims.first().copied());
        let Some(done) = self.execute(connection, sql, (clock, workers), request).await? else { return Ok(None) };
        let claimed = request.map(|_| done.claimed);
        outcomes(writes, Vec::new(), claimed.into_iter().collect(), &done.unfinished).map(Some)
    }

    /// Applies it in a transaction, in the order of the contract. `None`: a claim does not hold, and the transaction must be rolled back.
    pub(super) async fn apply_all(
        self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        workers: &Workers,
    ) -> Result<Option<Vec<Option<Outcome>>>, Failure> {
        let started = match &self.starts[..] {
            [] => Vec::new(),
            starts => start::start(connection, sql, clock, starts).await?,
        };
        let (writes, claims) = (self.writes, self.claims.clone());
        match self.execute(connection, sql, (clock, workers), None).await? {
            Some(done) if done.unfinished.is_empty() => {}
            _ => return Ok(None),
        }
        let mut claimed = Vec::new();
        for request in claims {
            claimed.push(claim::claim(connection, sql, clock, request).await?);
        }
        outcomes(writes, started, claimed, &[]).map(Some)
    }

    /// Executes its statement, with this claim.
    async fn execute(
        self,
        connection: &mut PgConnection,
        sql: &Sql,
        (clock, workers): (&Clock, &Workers),
        claim: Option<&ClaimRequest>,
    ) -> Result<Option<Done>, Failure> {
        let (attempts, may_be_there) = Rows::by_novelty(self.attempts)?;
        let query = sql.plain_batch.query().bind(clock.fixed().map(Timestamp::as_micros));
        let query = query.bind(fence::ids(self.held.keys())).bind(self.held.values().copied().collect::<Vec<_>>());
        let workers = if self.held.is_empty() { Vec::new() } else { workers.uuids() };
        let query = attempts.bind(query.bind(workers)).bind(i32::try_from(may_be_there).map_err(Failure::invalid)?);
        let query = claim::bind_if_any(self.finishes.bind(query), claim);
        let rows = match query.fetch_all(connection).await.map_err(Failure::from) {
            Err(failure) if failure.is_recorded() => return Ok(None),
            rows => rows?,
        };
        let first = rows.first().ok_or_else(|| Failure::corrupt("a batch answered nothing"))?;
        if !first.try_get::<bool, _>("holds")? {
            return Ok(None);
        }
        let unfinished: Option<Vec<Uuid>> = first.try_get("unfinished")?;
        let unfinished = unfinished.into_iter().flatten().map(RunId::from).collect();
        Ok(Some(Done { unfinished, claimed: claim::claimed(&rows)? }))
    }
}

/// What the statement did besides what it was told to.
struct Done {
    /// The runs that it neither ended nor parked.
    unfinished: Vec<RunId>,
    claimed: Claimed,
}

/// What became of each write of a batch whose claims hold. `None`: it is an end or a park of a run that was not finished.
fn outcomes(
    writes: &[Write],
    started: Vec<StartOutcome>,
    claimed: Vec<Claimed>,
    unfinished: &[RunId],
) -> Result<Vec<Option<Outcome>>, Failure> {
    let (mut started, mut claimed) = (started.into_iter(), claimed.into_iter());
    let missing = || Failure::corrupt("a write has no outcome");
    let outcome = |write: &Write| {
        Ok(Some(match write {
            Write::Start(_) => Outcome::Started(started.next().ok_or_else(missing)?),
            Write::Claim(_) => Outcome::Claimed(claimed.next().ok_or_else(missing)?),
            Write::End(EndWrite { claim, .. }) | Write::Park(ParkWrite { claim, .. })
                if unfinished.contains(&claim.run_id) =>
            {
                return Ok(None);
            }
            _ => Outcome::Applied,
        }))
    };
    writes.iter().map(outcome).collect()
}
