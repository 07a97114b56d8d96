//! The long way of a batch: its writes by kind, a statement or more each, and for each write what became of it.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;

use workflow_engine::model::{Claim, Clock, Effect, NewRun, NewSignal, RunId};
use workflow_engine::store::Ended;
use workflow_engine::store::{
    AttemptWrite, CancelOutcome, ContinueWrite, EndWrite, ForkWrite, Outcome, ParkWrite, RetryWrite, StartOutcome,
    Write,
};
use workflow_engine::store::{Fence, asked_by};

use super::error::Failure;
use super::fence::Wanted;
use super::finish::Finishes;
use super::sql::Sql;
use super::worker_lock::Workers;
use super::{attempt, claim, family, generation, rerun, settle, signal, start};

/// The writes by kind, each with its place in the batch, and the outcomes so far.
pub(super) struct Batch<'w> {
    writes: &'w [Write],
    starts: Vec<(usize, &'w NewRun)>,
    attempts: Vec<(usize, &'w AttemptWrite)>,
    signals: Vec<(usize, &'w NewSignal)>,
    ends: Vec<(usize, &'w EndWrite)>,
    parks: Vec<(usize, &'w ParkWrite)>,
    retries: Vec<(usize, &'w RetryWrite)>,
    forks: Vec<(usize, &'w ForkWrite)>,
    continues: Vec<(usize, &'w ContinueWrite)>,
    cancels: Vec<(usize, RunId)>,
    terminations: Vec<(usize, RunId)>,
    /// Rare, and one statement each: revivals, pauses, resumes, disowns, expiries, claims.
    others: Vec<(usize, &'w Write)>,
    /// Runs that this batch has ended.
    ended: Ended,
    outcomes: Vec<Option<Outcome>>,
}

impl<'w> Batch<'w> {
    /// Sorts them.
    pub(super) fn sort(writes: &'w [Write]) -> Self {
        let mut batch = Self {
            writes,
            starts: Vec::new(),
            attempts: Vec::new(),
            signals: Vec::new(),
            ends: Vec::new(),
            parks: Vec::new(),
            retries: Vec::new(),
            forks: Vec::new(),
            continues: Vec::new(),
            cancels: Vec::new(),
            terminations: Vec::new(),
            others: Vec::new(),
            ended: Ended::default(),
            outcomes: writes.iter().map(|_| None).collect(),
        };
        for (place, write) in writes.iter().enumerate() {
            match write {
                Write::Start(run) => batch.starts.push((place, run)),
                Write::Attempt(write) => batch.attempts.push((place, write)),
                Write::Signal(signal) => batch.signals.push((place, signal)),
                Write::End(write) => batch.ends.push((place, write)),
                Write::Park(write) => batch.parks.push((place, write)),
                Write::Retry(write) => batch.retries.push((place, write)),
                Write::Fork(write) => {
                    // Its start belongs to the others: they lock keys, and that in one order.
                    batch.starts.push((place, &write.new));
                    batch.forks.push((place, write));
                }
                Write::Revive(_) | Write::Pause(_) | Write::Resume(_) => batch.others.push((place, write)),
                Write::Continue(write) => batch.continues.push((place, write)),
                Write::Cancel(id) => batch.cancels.push((place, *id)),
                Write::Terminate(id) => batch.terminations.push((place, *id)),
                Write::Disown { .. } | Write::Expire { .. } | Write::Claim(_) => batch.others.push((place, write)),
            }
        }
        batch
    }

    /// Applies them. The order is the contract's.
    pub(super) async fn apply(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        (wanted, workers): (Wanted, &Workers),
    ) -> Result<(), Failure> {
        self.start(connection, sql, clock).await?;
        let fence = wanted.lock(connection, sql, workers).await?;
        self.fork(connection, sql).await?;
        self.record_attempts(connection, sql, clock, &fence).await?;
        self.signal(connection, sql, clock, &fence).await?;
        self.finish(connection, sql, clock, &fence).await?;
        self.change(connection, sql, clock).await?;
        self.disown(connection, sql, clock).await?;
        self.cancel(connection, sql, clock).await?;
        self.expire(connection, sql, clock).await?;
        family::tell(connection, sql, clock, std::mem::take(&mut self.ended)).await?;
        self.claim(connection, sql, clock).await
    }

    async fn start(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let runs: Vec<&NewRun> = self.starts.iter().map(|(_, run)| *run).collect();
        let outcomes = start::start(connection, sql, clock, &runs).await?;
        for ((place, _), outcome) in self.starts.iter().zip(outcomes) {
            self.outcomes[*place] = Some(Outcome::Started(outcome));
        }
        Ok(())
    }

    /// What the batch must know of its runs, if it can have the locks of these workers.
    pub(super) fn wanted(&self, workers: &Workers) -> Wanted {
        let mut asked = asked_by(self.writes);
        let canceled: BTreeSet<RunId> = self.cancels.iter().chain(&self.terminations).map(|(_, id)| *id).collect();
        let forks = self.forks.iter().map(|(_, write)| write.new.id);
        let parents = self.ends.iter().filter_map(|(_, write)| write.parent_run_id);
        let others = self.others.iter().filter_map(|(_, write)| match write {
            Write::Revive(write) => Some(write.run_id),
            Write::Pause(id) | Write::Resume(id) => Some(*id),
            _ => None,
        });
        // These are changed whatever their epoch is, but must be locked with the others.
        let mut changed: BTreeSet<RunId> = canceled.iter().copied().chain(forks).chain(parents).chain(others).collect();
        for run in &changed {
            asked.entry(*run).or_insert(None);
        }
        let with_children =
            self.ends.iter().filter(|(_, write)| write.has_children).map(|(_, write)| write.claim.run_id);
        let with_children: BTreeSet<RunId> = with_children.chain(canceled.iter().copied()).collect();
        let terminates = !self.terminations.is_empty();
        let mut wanted = Wanted { asked, with_children, canceled, terminates, ..Wanted::default() };
        if !workers.ids().is_empty() {
            changed.extend(self.writes.iter().filter_map(changes));
            wanted.spare_all_but(&changed);
        }
        wanted
    }

    /// What the starts among them met is known by now.
    async fn fork(&mut self, connection: &mut PgConnection, sql: &Sql) -> Result<(), Failure> {
        for (place, fork) in &self.forks {
            if matches!(self.outcomes[*place], Some(Outcome::Started(StartOutcome::Created))) {
                rerun::copy(connection, sql, fork).await?;
            }
        }
        Ok(())
    }

    async fn record_attempts(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        fence: &Fence,
    ) -> Result<(), Failure> {
        let mut live = Vec::with_capacity(self.attempts.len());
        for (place, write) in &self.attempts {
            match fence.refusal(write.claim) {
                Some(refusal) => self.outcomes[*place] = Some(refusal),
                None => live.push((*place, *write)),
            }
        }
        let taken = attempt::start_children(connection, sql, clock, &live).await?;
        for (place, _) in &live {
            let key_taken = taken.get(place).map(|id| Outcome::KeyTaken { id: *id });
            self.outcomes[*place] = Some(key_taken.unwrap_or(Outcome::Applied));
        }
        let rows: Vec<&AttemptWrite> =
            live.into_iter().filter(|(place, _)| !taken.contains_key(place)).map(|(_, write)| write).collect();
        if rows.is_empty() {
            return Ok(());
        }
        attempt::consume(connection, sql, &rows).await?;
        attempt::record(connection, sql, rows).await.map(drop)
    }

    async fn signal(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        fence: &Fence,
    ) -> Result<(), Failure> {
        let signals: Vec<&NewSignal> = self.signals.iter().map(|(_, signal)| *signal).collect();
        let outcomes = signal::send(connection, sql, clock, fence, &signals).await?;
        for ((place, _), outcome) in self.signals.iter().zip(outcomes) {
            self.outcomes[*place] = Some(Outcome::Signaled(outcome));
        }
        Ok(())
    }

    async fn finish(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        fence: &Fence,
    ) -> Result<(), Failure> {
        let mut finishes = Finishes::default();
        for (place, write) in &self.ends {
            let outcome = finish_outcome(fence, write.claim, || finishes.end(write))?;
            if matches!(outcome, Outcome::Applied) {
                self.ended.by_worker(write);
            }
            self.outcomes[*place] = Some(outcome);
        }
        for (place, write) in &self.parks {
            let outcome = finish_outcome(fence, write.claim, || finishes.park(write))?;
            self.outcomes[*place] = Some(outcome);
        }
        let mut retries = BTreeMap::new();
        for (place, write) in &self.retries {
            let run_id = write.claim.run_id;
            let add = || Ok(!finishes.holds(run_id) && retries.insert(run_id, *write).is_none());
            self.outcomes[*place] = Some(finish_outcome(fence, write.claim, add)?);
        }
        let mut continued = BTreeMap::new();
        for (place, write) in &self.continues {
            let run_id = write.claim.run_id;
            let add = || {
                let is_first =
                    !finishes.holds(run_id) && !retries.contains_key(&run_id) && !continued.contains_key(&run_id);
                if is_first {
                    continued.insert(run_id, *write);
                }
                Ok(is_first)
            };
            let outcome = finish_outcome(fence, write.claim, add)?;
            self.outcomes[*place] = Some(outcome);
        }
        finishes.apply(connection, sql, clock).await?;
        generation::begin(connection, sql, clock, &continued).await?;
        rerun::retry(connection, sql, clock, &retries).await
    }

    async fn change(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Revive(write) = write {
                self.outcomes[*place] = Some(rerun::revive(connection, sql, clock, write).await?);
            }
        }
        for (place, write) in &self.others {
            if let Write::Pause(id) = write {
                self.outcomes[*place] = Some(Outcome::Paused(rerun::pause(connection, sql, clock, *id).await?));
            }
        }
        for (place, write) in &self.others {
            if let Write::Resume(id) = write {
                self.outcomes[*place] = Some(Outcome::Resumed(rerun::resume(connection, sql, *id).await?));
            }
        }
        Ok(())
    }

    async fn disown(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Disown { worker, known } = write {
                let changed = settle::disown(connection, sql, clock, *worker, known).await?;
                self.outcomes[*place] = Some(Outcome::Changed(changed));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (statement, asked) in [(&sql.cancel_runs, &self.cancels), (&sql.terminate_runs, &self.terminations)] {
            if asked.is_empty() {
                continue;
            }
            let ids: Vec<RunId> = asked.iter().map(|(_, id)| *id).collect();
            let outcomes = settle::cancel(connection, sql, statement, clock, &ids).await?;
            for ((place, id), outcome) in asked.iter().zip(outcomes) {
                if outcome == CancelOutcome::Canceled {
                    self.ended.by_others(*id);
                }
                self.outcomes[*place] = Some(Outcome::Canceled(outcome));
            }
        }
        Ok(())
    }

    async fn expire(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Expire { limit, patience } = write {
                let expired = settle::expire(connection, sql, clock, *limit, *patience).await?;
                self.outcomes[*place] = Some(Outcome::Changed(expired.len() as u64));
                expired.into_iter().for_each(|run| self.ended.by_others(run));
            }
        }
        Ok(())
    }

    async fn claim(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Claim(request) = write {
                let claimed = claim::claim(connection, sql, clock, request).await?;
                self.outcomes[*place] = Some(Outcome::Claimed(claimed));
            }
        }
        Ok(())
    }

    /// What became of each, in their order.
    pub(super) fn outcomes(self) -> Result<Vec<Outcome>, Failure> {
        // Every write has a place and every place an outcome; a gap would be a fault of this file.
        self.outcomes.into_iter().collect::<Option<_>>().ok_or_else(|| Failure::corrupt("a write has no outcome"))
    }
}

/// The run that the write changes, or whose inbox or children it does, of those writes that a fence decides about.
fn changes(write: &Write) -> Option<RunId> {
    match write {
        Write::Attempt(write) => match write.effect {
            Effect::None => None,
            Effect::Start(_) | Effect::Consume { .. } => Some(write.claim.run_id),
        },
        Write::End(write) => Some(write.claim.run_id),
        Write::Park(write) => Some(write.claim.run_id),
        Write::Continue(write) => Some(write.claim.run_id),
        Write::Retry(write) => Some(write.claim.run_id),
        Write::Signal(signal) => Some(signal.run_id),
        _ => None,
    }
}

/// What an end, a park or a continue is answered with; `add` puts it among those that are applied.
fn finish_outcome(
    fence: &Fence,
    claim: Claim,
    add: impl FnOnce() -> Result<bool, Failure>,
) -> Result<Outcome, Failure> {
    match fence.refusal(claim) {
        Some(refusal) => Ok(refusal),
        None if add()? => Ok(Outcome::Applied),
        None => Ok(Outcome::Duplicate),
    }
}
