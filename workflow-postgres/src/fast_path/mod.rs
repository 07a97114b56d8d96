//! The fast path of a batch: one statement, which is a transaction of its own. Each statement is a
//! way to the server and back, on which two processes have to be scheduled; so are BEGIN and
//! COMMIT.
//!
//! It takes batches of the ordinary kinds: starts, attempts without an effect, ends without a
//! family, parks and claims. A single write is a batch of one. The statement does everything as if
//! all claims held, all lanes had rows and no queue of a start had bounds, and changes nothing if
//! one of these is not so. The batch then takes the slow path, which finds out which claim is lost,
//! inserts the lanes and counts the waiting runs. So does a batch of a process that has had more
//! workers than `ownership.rs` remembers.
//!
//! A claim sees no run that its own statement makes due. If it may take more runs than the batch
//! starts, the statement starts those that the claim takes as claimed runs. Otherwise the claim
//! follows as a statement of its own, as does a claim beside parks and a second claim. A claim that
//! looks at limits follows as a transaction of its own.

mod answer;
mod statement;

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use workflow_engine::model::{Effect, NewRun, RunId};
use workflow_engine::store::{AttemptWrite, ClaimRequest, Write, asked_by_unless};

use super::context::Context;
use super::error::Failure;
use super::fence_cache::FenceCache;
use super::finish::Finishes;
use super::ownership::Workers;
use super::start::is_due_at_once;

pub(super) use answer::Answer;
pub(super) use statement::BatchStatement;

/// The result of the fast path.
pub(super) enum Fast {
    /// The batch is committed.
    Done(Box<Answer>),
    /// The batch needs the slow path. Nothing was sent.
    NotApplicable,
    /// A claim does not hold, the lane of a new run has no row, or its queue has bounds. Nothing
    /// was changed.
    Refused,
}

/// A batch that the fast path takes.
#[derive(Default)]
pub(super) struct FastPath<'w> {
    starts: Vec<&'w NewRun>,
    attempts: Vec<&'w AttemptWrite>,
    releases: Finishes<'w>,
    /// The claims, each with its index in the batch.
    claims: Vec<(usize, &'w ClaimRequest)>,
    /// The runs of the attempts, each with the epoch under which its writer holds it, without
    /// claims that the fence cache knows.
    asked: BTreeMap<RunId, i64>,
    relies_on_cache: bool,
}

impl<'w> FastPath<'w> {
    /// Returns the batch, if the fast path takes it and the locks of these workers are enough for
    /// it.
    pub(super) fn of(writes: &'w [Write], workers: &Workers, cache: &FenceCache) -> Option<Self> {
        let mut batch = Self::default();
        for (index, write) in writes.iter().enumerate() {
            batch.add(index, write)?;
        }
        // A claim that looks at limits follows the statement, so it needs one.
        if batch.is_without_writes() && batch.claims.first().is_none_or(|(_, request)| request.is_limited()) {
            return None;
        }
        batch.ask(writes, cache)?;
        (batch.attempts.is_empty() || workers.are_all()).then_some(batch)
    }

    fn add(&mut self, index: usize, write: &'w Write) -> Option<()> {
        match write {
            Write::Start(run) if !run.may_take_key() && run.single.is_none() => self.starts.push(run),
            Write::Attempt(write) if matches!(write.effect, Effect::None) => self.attempts.push(write),
            // The slow path answers a write that cannot be stored, and a second release of a run.
            Write::End(write) if write.is_alone() => {
                self.releases.end(write).ok().filter(|added| *added)?;
            }
            Write::Park(write) => drop(self.releases.park(write).ok().filter(|added| *added)?),
            Write::Claim(request) => self.claims.push((index, request)),
            _ => return None,
        }
        Some(())
    }

    fn is_without_writes(&self) -> bool {
        self.starts.is_empty() && self.attempts.is_empty() && self.releases.is_empty()
    }

    /// Notes which claims the statement must check. `None`: two claims name one run, and the fence
    /// must decide between them.
    fn ask(&mut self, writes: &[Write], cache: &FenceCache) -> Option<()> {
        let relies_on_cache = Cell::new(false);
        let recorded: HashSet<RunId> = self.attempts.iter().map(|write| write.claim.run_id).collect();
        let is_known = |claim| {
            let holds = cache.holds(claim);
            relies_on_cache.set(relies_on_cache.get() || holds);
            holds
        };
        for (run, epoch) in asked_by_unless(writes, is_known) {
            let epoch = epoch?;
            // The statement checks the claim of a release by changing its row. That does not keep
            // an attempt beside it from being recorded.
            if recorded.contains(&run) || !self.releases.contains(run) {
                self.asked.insert(run, epoch);
            }
        }
        self.relies_on_cache = relies_on_cache.get();
        Some(())
    }

    /// Returns the claim that the statement makes, if it makes one, and the indexes of the others.
    /// `starts` are the batch's starts in the order in which the statement has them.
    fn split_claims(&self, starts: &[&NewRun]) -> (Option<JoinedClaim>, Vec<usize>) {
        let joined = self.claims.first().and_then(|(index, request)| self.join(*index, request, starts));
        let later = self.claims.iter().skip(usize::from(joined.is_some())).map(|(index, _)| *index);
        (joined, later.collect())
    }

    fn join(&self, index: usize, request: &ClaimRequest, starts: &[&NewRun]) -> Option<JoinedClaim> {
        // With room beside them: runs that have been due for longer must not wait behind what is
        // started.
        let has_room = starts.is_empty() || starts.len() < request.limit as usize;
        if self.releases.has_parks() || !has_room || request.is_limited() {
            return None;
        }
        let takes = |run: &&NewRun| if request.lanes.contains(&run.lane) { is_due_at_once(run) } else { Some(false) };
        let takes: Vec<bool> = starts.iter().map(takes).collect::<Option<_>>()?;
        let limit = request.limit - u32::try_from(takes.iter().filter(|taken| **taken).count()).ok()?;
        let taken = starts.iter().zip(&takes).filter(|(_, taken)| **taken).map(|(run, _)| run.id).collect();
        Some(JoinedClaim { index, limit, takes, taken })
    }

    /// Binds the statement.
    pub(super) fn bind(self, context: Context<'_>, cache: &FenceCache) -> Result<BatchStatement, Failure> {
        BatchStatement::bind(self, context, cache)
    }
}

/// A claim that is part of the batch's statement.
pub(super) struct JoinedClaim {
    /// Its index in the batch.
    index: usize,
    /// The number of runs that it may take beside those that the batch starts.
    limit: u32,
    /// Which of the batch's starts it takes.
    takes: Vec<bool>,
    /// The ids of these starts. A batch may start a run twice.
    taken: HashSet<RunId>,
}
