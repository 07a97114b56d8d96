//! Batches of the ordinary kinds: starts, attempts without effects, ends without a family, parks, claims. The question whether their
//! claims hold, their attempts, their ends and parks, and mostly a claim are one statement, which is a transaction of its own: each
//! statement is a way to the server and back, on which two processes have to be scheduled, and so are BEGIN and COMMIT. Starts come
//! before it, and a claim that must see what it makes due comes after it, in one transaction with it.
//!
//! All is done as if every claim held. If one does not, nothing is, and the batch goes the long way, which says of each what
//! became of it. So does every batch of a process that has had more workers than `worker_lock.rs` remembers.

use std::cell::Cell;
use std::collections::BTreeMap;

use sqlx::PgConnection;

use workflow_engine::model::{Effect, NewRun, RunId, Timestamp};
use workflow_engine::store::asked_by_unless;
use workflow_engine::store::{AttemptWrite, ClaimRequest, Claimed, EndWrite, Outcome, ParkWrite, StartOutcome, Write};

use super::attempt::Rows;
use super::bound::{Applied, Bound};
use super::commit::{Context, Memory};
use super::error::Failure;
use super::finish::Finishes;
use super::known_claims::KnownClaims;
use super::worker_lock::Workers;
use super::{claim, fence, start};

/// A batch of these kinds.
#[derive(Default)]
pub(super) struct Plain<'w> {
    starts: Vec<&'w NewRun>,
    attempts: Vec<&'w AttemptWrite>,
    finishes: Finishes,
    claims: Vec<&'w ClaimRequest>,
    /// The runs of the attempts, each with the epoch under which its writer holds it, but for those that are known.
    asked: BTreeMap<RunId, i64>,
    relies_on_known: bool,
}

impl<'w> Plain<'w> {
    /// The batch, if it is one and the locks of these workers are enough for it.
    pub(super) fn of(writes: &'w [Write], workers: &Workers, known: &KnownClaims) -> Option<Self> {
        let mut plain = Self::default();
        for write in writes {
            plain.add(write)?;
        }
        // An attempt comes before the end of its claim: whoever looks at it, such as a trigger of an audit, finds the run running. Of one
        // statement everybody sees all or nothing.
        if plain.attempts.iter().any(|write| plain.finishes.holds(write.claim.run_id)) {
            return None;
        }
        let relies_on_known = Cell::new(false);
        let is_known = |claim| {
            let holds = known.holds(claim);
            relies_on_known.set(relies_on_known.get() || holds);
            holds
        };
        for (run, epoch) in asked_by_unless(writes, is_known) {
            // Two claims of one run need the fence to decide between them.
            let epoch = epoch?;
            if !plain.finishes.holds(run) {
                plain.asked.insert(run, epoch);
            }
        }
        plain.relies_on_known = relies_on_known.get();
        let writes_rows = !plain.attempts.is_empty() || !plain.finishes.is_empty();
        (writes_rows && (plain.attempts.is_empty() || workers.are_all())).then_some(plain)
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

    /// Applies it in a transaction, in the order of the contract, and says what its starts and claims came to. `None`: a claim does not
    /// hold, and the transaction must be rolled back.
    pub(super) async fn apply(
        self,
        connection: &mut PgConnection,
        context: Context<'_>,
        memory: &Memory,
    ) -> Result<Option<(Applied, Vec<StartOutcome>, Vec<Claimed>)>, Failure> {
        let Context { sql, clock, .. } = context;
        let started = match &self.starts[..] {
            [] => Vec::new(),
            starts => start::start(connection, sql, clock, starts).await?,
        };
        let bound = self.bind(context, &memory.lock().known, None)?;
        let Some(applied) = bound.execute(connection, None).await?.filter(|applied| applied.unfinished.is_empty())
        else {
            return Ok(None);
        };
        let mut claimed = Vec::new();
        for request in &self.claims {
            claimed.push(claim::claim_on(connection, sql, clock, memory, request).await?);
        }
        Ok(Some((applied, started, claimed)))
    }

    /// The batch, if it is one statement, as that: with its claim.
    pub(super) fn bind_one(&self, context: Context<'_>, known: &KnownClaims) -> Option<Result<Bound, Failure>> {
        self.is_one_statement().then(|| self.bind(context, known, self.claims.first().copied()))
    }

    /// Whether one statement applies it. A claim in it sees no run that the same statement makes due.
    fn is_one_statement(&self) -> bool {
        self.starts.is_empty() && (self.claims.is_empty() || self.claims.len() == 1 && !self.finishes.has_parks())
    }

    /// Binds its statement, with this claim.
    fn bind(
        &self,
        Context { sql, clock, workers }: Context<'_>,
        known: &KnownClaims,
        claim: Option<&ClaimRequest>,
    ) -> Result<Bound, Failure> {
        let attempts = Rows::by_novelty(self.attempts.clone())?;
        let none = Workers::default();
        let locked = if self.attempts.is_empty() && self.claims.is_empty() { &none } else { workers };
        let versions = if self.relies_on_known { known.versions(locked) } else { vec![None; locked.ids().len()] };
        let is_usual = attempts.are_usual() && self.finishes.are_usual() && self.asked.is_empty();
        let (full, without_claim) = match attempts.are_new() {
            true if is_usual => (&sql.plain_batch_of_usual, &sql.plain_batch_of_usual_without_claim),
            true => (&sql.plain_batch_of_new, &sql.plain_batch_of_new_without_claim),
            false => (&sql.plain_batch, &sql.plain_batch_without_claim),
        };
        let statement = if claim.is_some() { full } else { without_claim };
        let onward = (claim.is_some() && is_usual).then(|| sql.plain_batch_of_usual_onward.clone());
        let query = statement.query().bind(clock.fixed().map(Timestamp::as_micros));
        let query = query.bind(fence::ids(self.asked.keys())).bind(self.asked.values().copied().collect::<Vec<_>>());
        let query = attempts.bind_by_novelty(query.bind(locked.uuids()))?;
        let mut query = self.finishes.bind(query).bind(versions);
        if let Some(request) = claim {
            query = claim::bind(query, request, request.limit);
        }
        Ok(Bound {
            query,
            onward,
            claims: claim.is_some(),
            locked: locked.ids().to_vec(),
            asked: self.asked.clone(),
            finishing: self.finishes.runs(),
        })
    }
}

/// What became of each write, if claims hold. `None`: it is an end or a park of a run that was not finished.
pub(super) fn outcomes(
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
