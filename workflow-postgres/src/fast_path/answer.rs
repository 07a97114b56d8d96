//! The answer to a batch's statement. It is read after the connection is free for the next batch.

use std::collections::{BTreeSet, HashSet};

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use workflow_engine::model::{NewRun, RunId, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun, Outcome, StartOutcome, Write, claim_limited};

use super::JoinedClaim;
use crate::claim_cursor::Cursors;
use crate::context::{Context, Memory};
use crate::error::Failure;
use crate::fence_cache::Versions;
use crate::slow_path::{SlowPath, slow_path};
use crate::{claim, start};

/// The answer of the database to a committed batch.
#[derive(Default)]
pub(crate) struct Answer {
    /// Runs that the batch should have ended or parked, but which were not what the writer took
    /// them for. The statement has then claimed none but started runs.
    pub(crate) unfinished: BTreeSet<RunId>,
    /// The outcomes of the ends and parks of these runs, each with its index in the batch.
    pub(crate) late: Vec<(usize, Outcome)>,
    pub(super) rows: Vec<PgRow>,
    /// The outcomes of the starts, in order.
    pub(super) started: Vec<StartOutcome>,
    /// The versions of the workers' rows, as far as the statement has locked them.
    pub(super) versions: Versions,
    pub(super) claim: Option<JoinedClaim>,
    /// Where that claim began to look.
    pub(super) cursors: Cursors,
    /// The runs that another statement has claimed because the first one did not see all due runs,
    /// each with the time that decides its place.
    pub(super) rest: Vec<(Timestamp, ClaimedRun)>,
    /// The indexes of claims that follow the statement.
    pub(super) later_claims: Vec<usize>,
    /// The results of those claims, each with its index in the batch.
    pub(super) claimed_later: Vec<(usize, Claimed)>,
    /// The outcomes of those that looked at limits.
    pub(super) limited: Vec<(usize, Outcome)>,
}

impl Answer {
    /// Leaves to the claim only those of the started runs that are new; `None`: all are.
    pub(super) fn keep_new_starts(&mut self, new: Option<Vec<Uuid>>) {
        if let (Some(claim), Some(new)) = (&mut self.claim, new) {
            let new: HashSet<Uuid> = new.into_iter().collect();
            claim.taken.retain(|run| new.contains(&run.as_uuid()));
        }
    }

    /// Claims what the statement's claim may have left, and makes the claims that follow the
    /// statement.
    pub(crate) async fn claim_more(
        &mut self,
        connection: &mut PgConnection,
        context: Context<'_>,
        memory: &Memory,
        writes: &[Write],
    ) -> Result<(), Failure> {
        if let Some(rest) = self.rest_of_claim(memory, writes)? {
            self.rest = claim::claim_rest(&mut *connection, context.sql, context.clock, &rest).await?;
        }
        // Those that look at limits are made already, unless ends were left.
        let claims_limited = self.limited.is_empty();
        for index in &self.later_claims {
            let Some(write) = writes.get(*index) else { continue };
            match write.as_claim() {
                Some(request) if !request.is_limited() => {
                    let claimed = claim::claim_resumed(&mut *connection, context, memory, request).await?;
                    self.claimed_later.push((*index, claimed));
                }
                Some(_) if claims_limited => {
                    let outcomes = slow_path(&mut *connection, context, memory, std::slice::from_ref(write)).await?;
                    self.limited.extend(outcomes.into_iter().map(|outcome| (*index, outcome)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the claims that look at limits, in the transaction of the statement.
    pub(crate) async fn claim_limited(
        &mut self,
        connection: &mut PgConnection,
        context: Context<'_>,
        memory: &Memory,
        writes: &[Write],
    ) -> Result<(), Failure> {
        for index in &self.later_claims {
            let request = writes.get(*index).and_then(Write::as_claim).filter(|request| request.is_limited());
            if let Some(request) = request {
                let claimed = claim_limited(&mut SlowPath::within(connection, context, memory), request).await?;
                self.limited.push((*index, Outcome::Claimed(claimed)));
            }
        }
        Ok(())
    }

    /// Saves the cursors of the statement's claim. Returns the claim of what the statement may have
    /// left.
    fn rest_of_claim(&self, memory: &Memory, writes: &[Write]) -> Result<Option<ClaimRequest>, Failure> {
        let Some(joined) = &self.claim else { return Ok(None) };
        let Some(request) = writes.get(joined.index).and_then(Write::as_claim) else { return Ok(None) };
        let found = claim::save_cursors(memory, (request, joined.limit), &self.cursors, &self.rows)?;
        // A full claim has left something if a start that it should have taken was not new; a short
        // one, if it did not look from the beginning, or not at all.
        let is_full = found == joined.limit as usize;
        let may_be_left = is_full || !self.cursors.is_empty() || !self.unfinished.is_empty();
        Ok(claim::rest_of(request, found + joined.taken.len()).filter(|_| may_be_left))
    }

    /// Returns the outcome of each of these writes, which are the batch. A claim whose runs cannot
    /// be understood is refused: the batch is committed, and the other writes have their outcomes.
    pub(crate) fn read(mut self, memory: &Memory, writes: &[Write]) -> Vec<Outcome> {
        let joined = self.claim.take().and_then(|joined| {
            let request = writes.get(joined.index).and_then(Write::as_claim)?;
            Some((joined.index, self.claimed(&joined, memory, request, writes)))
        });
        let mut started = self.started.into_iter();
        let outcome = |write: &Write| match write {
            // Every start has an outcome; none would be a fault of the fast path.
            Write::Start(_) => started.next().map_or_else(missing, Outcome::Started),
            Write::Claim(_) => missing(),
            _ => Outcome::Applied,
        };
        let mut outcomes: Vec<Outcome> = writes.iter().map(outcome).collect();
        let claimed_later = self.claimed_later.into_iter().map(|(index, claimed)| (index, Ok(claimed)));
        for (index, claimed) in joined.into_iter().chain(claimed_later) {
            outcomes[index] = claimed.map_or_else(refused, Outcome::Claimed);
        }
        for (index, outcome) in &self.limited {
            if let (Outcome::Claimed(claimed), Some(request)) = (outcome, writes.get(*index).and_then(Write::as_claim))
            {
                memory.lock().fences.add_claimed(&self.versions, request.worker, &claimed.runs);
            }
        }
        for (index, outcome) in self.late.into_iter().chain(self.limited) {
            outcomes[index] = outcome;
        }
        outcomes
    }

    /// Reads what the statement has claimed, and adds it to the fence cache.
    fn claimed(
        &mut self,
        joined: &JoinedClaim,
        memory: &Memory,
        request: &ClaimRequest,
        writes: &[Write],
    ) -> Result<Claimed, Failure> {
        let now = claim::time_of(&self.rows)?;
        let mut runs = claim::runs(&self.rows, (request, &[]), now)?;
        if !joined.taken.is_empty() {
            let mut taken = joined.taken.clone();
            let is_taken = |run: &&NewRun| taken.remove(&run.id);
            let starts = writes.iter().filter_map(|write| match write {
                Write::Start(run) => Some(run),
                _ => None,
            });
            runs.extend(starts.filter(is_taken).map(|run| start::claimed_at_start(run, request, now)));
        }
        runs.append(&mut self.rest);
        let runs = claim::in_order(runs);
        memory.lock().fences.add_claimed(&self.versions, request.worker, &runs);
        Ok(Claimed { runs, held_back: Vec::new(), full_gates: Vec::new(), next_at: None, now })
    }
}

fn refused(failure: Failure) -> Outcome {
    Outcome::Refused(failure.during("read the answer to a batch"))
}

fn missing() -> Outcome {
    refused(Failure::corrupt("a write has no outcome"))
}
