//! The order of a batch: which kind of write comes after which, and what each write is answered.
//!
//! This module decides, a [`BatchTarget`] stores, and a driver runs the transaction around both.
//! The order is part of the contract of [`Store::commit`](super::Store::commit): a later kind finds
//! what an earlier kind did.

mod audits;
mod bulks;
mod cancels;
mod deletions;
mod events;
mod placements;
mod room;
mod rules;
mod schedules;
mod seats;
mod singles;
mod statistics;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::faults::planted;
use crate::model::{AttemptStatus, Claim, Effect, NewRun, NewSignal, RunId, RunStatus, SignalOutcome, StoredError};

use self::bulks::Bulks;
use self::room::Meeting;
use self::seats::Lines;
use super::attempt_row::AttemptRow;
use super::batch_target::{BatchTarget, ConsumedSignal, DueRuns};
use super::cascade::{Ended, cascade};
use super::fence::Fence;
use super::limited_claim::claim_limited;
use super::locks::Locks;
use super::outcomes::{MissingOutcome, Outcomes};
use super::releases::Releases;
use super::sorted_batch::SortedBatch;
use super::{AttemptWrite, CrashesWrite, ForkWrite, Outcome, PauseOutcome, ResumeOutcome, StartOutcome, Write};

/// Applies the writes to the target's open transaction and returns the outcome of each, in their
/// order.
///
/// Order within the batch: bulk operations, queues, limits, schedules, starts, forks, step attempts
/// with their effects, crashes, signals, emissions, ends, parks, continues, retries, revivals,
/// pauses, resumes, changes of places, releases of unknown claims, starts with a single key,
/// cancels, terminations, expiries, deletions, calls of seats, claims, audit rows, statistics; rows
/// sorted by run id. A [`Write::Audited`] has the place of the write in it, and each write of a
/// chunk of a bulk operation has its own.
///
/// # Errors
/// The first error of the target, or [`MissingOutcome`] if the target left a write without an
/// answer. The transaction must then be rolled back.
pub async fn apply<T: BatchTarget>(target: &mut T, writes: &[Write]) -> Result<Vec<Outcome>, T::Error> {
    let mut bulks = Bulks::open(target, writes).await?;
    let sorted = SortedBatch::with(writes, bulks.writes());
    let locks = Locks::of(&sorted);
    let mut outcomes = Outcomes::of(sorted.all.len());
    bulks.set_outcomes(&mut outcomes);
    let outcomes = apply_with(target, sorted, locks, outcomes, true).await?;
    bulks.close(target, outcomes, writes.len()).await
}

/// Applies one write in a transaction of the application, and returns its outcome.
///
/// Such a transaction may stay open for long. So it locks parents and children only if it changes
/// them, although that is out of order: see [`Locks`]. For the same reason it counts nothing.
///
/// # Errors
/// See [`apply`].
pub async fn apply_within<T: BatchTarget>(target: &mut T, write: &Write) -> Result<Outcome, T::Error> {
    let writes = SortedBatch::of(std::slice::from_ref(write));
    let locks = Locks::of(&writes).without_families();
    let outcomes = Outcomes::of(1);
    let outcome = apply_with(target, writes, locks, outcomes, false).await?.pop();
    outcome.ok_or_else(|| MissingOutcome { index: 0, writes: 1 }.into())
}

/// The order of a batch.
async fn apply_with<T: BatchTarget>(
    target: &mut T,
    writes: SortedBatch<'_>,
    mut locks: Locks,
    outcomes: Outcomes,
    counts: bool,
) -> Result<Vec<Outcome>, T::Error> {
    let mut batch = OpenBatch { target, writes, outcomes, ended: Ended::default(), counts };
    batch.write_queues().await?;
    batch.write_limits().await?;
    let scheduled = batch.change_schedules().await?;
    let forks = batch.start_runs(scheduled).await?;
    let busy = batch.lock_events(&mut locks).await?;
    let busy_singles = batch.lock_singles(&mut locks).await?;
    let mut lines = batch.lock_lines(&mut locks).await?;
    let mut fence = batch.lock_runs(&locks).await?;
    batch.copy_histories(forks, &fence).await?;
    batch.record_attempts(&fence, &mut lines).await?;
    batch.set_crashes(&fence).await?;
    batch.send_signals(&fence).await?;
    batch.emit_events(&busy).await?;
    batch.release_claims(&mut fence).await?;
    batch.revive_runs().await?;
    batch.pause_runs().await?;
    batch.resume_runs().await?;
    batch.place_runs().await?;
    batch.release_unknown_claims().await?;
    batch.start_singles(&busy_singles).await?;
    batch.cancel_runs().await?;
    batch.terminate_runs().await?;
    batch.expire_runs().await?;
    let ended = batch.cascade().await?;
    let ended = batch.find_ended(&ended).await?;
    batch.delete_runs().await?;
    batch.call_seats(&mut lines).await?;
    batch.forget_rates(&lines).await?;
    batch.claim_runs().await?;
    batch.insert_audits().await?;
    batch.write_statistics(ended).await?;
    Ok(batch.outcomes.complete()?)
}

/// A batch while it is applied.
struct OpenBatch<'b, T> {
    target: &'b mut T,
    writes: SortedBatch<'b>,
    outcomes: Outcomes,
    /// The runs that the batch has ended so far.
    ended: Ended,
    /// Whether runs that end without their workers are counted.
    counts: bool,
}

impl<'b, T: BatchTarget> OpenBatch<'b, T> {
    /// Starts the runs of starts, forks and schedules, and returns the forks whose run exists now.
    /// Starts and forks ask for room, because their callers can be told. One call inserts all,
    /// because inserts wait for each other's keys and must do so in one order. Of two runs with one
    /// key, a start's comes before a fork's, and that before a schedule's.
    async fn start_runs(&mut self, scheduled: Vec<&'b NewRun>) -> Result<Vec<(usize, &'b ForkWrite)>, T::Error> {
        let SortedBatch { starts, forks, .. } = &self.writes;
        let runs: Vec<&NewRun> = starts
            .writes()
            .iter()
            .copied()
            .chain(forks.writes().iter().map(|fork| &fork.new))
            .chain(scheduled)
            .collect();
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let asking = starts.len() + forks.len();
        let mut started = self.start_asking(&runs, asking, Meeting::Wait).await?.into_iter();
        let SortedBatch { starts, forks, .. } = &self.writes;
        for (index, outcome) in starts.indexes().zip(started.by_ref()) {
            self.outcomes.set(index, outcome);
        }
        let mut created = Vec::new();
        for ((index, fork), outcome) in forks.iter().zip(started) {
            if matches!(outcome, Outcome::Started(StartOutcome::Created)) {
                created.push((index, fork));
            }
            self.outcomes.set(index, outcome);
        }
        Ok(created)
    }

    /// Locks the runs that decide about the batch, and returns what they are.
    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, T::Error> {
        if locks.is_empty() { Ok(Fence::default()) } else { self.target.lock_runs(locks).await }
    }

    /// Gives each new run of a fork its part of the history, once: a run that was claimed or copied
    /// into before gets nothing.
    async fn copy_histories(&mut self, forks: Vec<(usize, &ForkWrite)>, fence: &Fence) -> Result<(), T::Error> {
        for (index, fork) in forks {
            let ForkWrite { source, new, before, kept } = fork;
            if fork.copied_source().is_none() || !self.target.mark_fork(new.id).await? {
                continue;
            }
            if fence.status(*source).is_none() {
                self.refuse_fork(index, new.id).await?;
                continue;
            }
            let Some(kept) = kept else {
                self.target.copy_history(*source, new.id, *before).await?;
                continue;
            };
            let claim = Claim { run_id: new.id, epoch: 1 };
            let rows = kept.iter().map(|row| AttemptWrite { claim, row: row.clone(), effect: Effect::None });
            let rows: Vec<AttemptWrite> = rows.collect();
            if !rows.is_empty() {
                self.target.record_attempts(&AttemptRow::of(rows.iter().collect())).await?;
            }
        }
        Ok(())
    }

    /// Records step attempts, after their effects: a child that cannot start leaves its attempt
    /// unrecorded.
    async fn record_attempts(&mut self, fence: &Fence, lines: &mut Lines<'b>) -> Result<(), T::Error> {
        let mut passed = Vec::with_capacity(self.writes.attempts.len());
        for (index, write) in self.writes.attempts.iter() {
            match fence.refusal(write.claim) {
                Some(refusal) => self.outcomes.set(index, refusal),
                None => passed.push((index, write)),
            }
        }
        let taken = self.start_children(&passed).await?;
        let unchanged = self.change_event_waits(&passed).await?;
        let seated = self.change_seats(&passed, lines).await?;
        let mut recorded = Vec::with_capacity(passed.len());
        let mut consumed = Vec::new();
        for (index, write) in passed {
            if let Some(id) = taken.get(&index) {
                self.outcomes.set(index, Outcome::KeyTaken { id: *id });
                continue;
            }
            if unchanged.contains(&index) || seated.refused.contains(&index) {
                continue;
            }
            if let Effect::Consume { seq } = write.effect {
                consumed.push(ConsumedSignal { run_id: write.claim.run_id, seq, step_key: &write.row.step_key });
            }
            recorded.push(write);
            let waits = seated.waiting.get(&index).map(|asks_at| Outcome::SeatWaits { asks_at: *asks_at });
            self.outcomes.set(index, waits.unwrap_or(Outcome::Applied));
        }
        if !consumed.is_empty() && !planted("signal-twice") {
            self.target.consume_signals(&consumed).await?;
        }
        if !recorded.is_empty() {
            self.target.record_attempts(&AttemptRow::of(recorded)).await?;
        }
        Ok(())
    }

    /// Starts the children of these attempts. Returns the indexes of the attempts whose child's key
    /// another run has, with that run.
    async fn start_children(&mut self, passed: &[(usize, &AttemptWrite)]) -> Result<HashMap<usize, RunId>, T::Error> {
        let mut written_finally = HashSet::new();
        let mut parents = Vec::new();
        for (index, write) in passed {
            let is_new = !written_finally.contains(&write.identity());
            if let Effect::Start(child) = &write.effect
                && is_new
            {
                parents.push((*index, *write, child.as_ref()));
            }
            if write.row.status != AttemptStatus::Running {
                written_finally.insert(write.identity());
            }
        }
        if parents.is_empty() {
            return Ok(HashMap::new());
        }
        // A row that is final stays as it is, so nothing would lead to a child that it did not
        // start.
        let writes: Vec<&AttemptWrite> = parents.iter().map(|(_, write, _)| *write).collect();
        let is_final = self.target.find_final(&writes).await?;
        let open = parents.into_iter().zip(0..).filter(|(_, place)| !is_final.contains(place));
        let (indexes, children): (Vec<usize>, Vec<&NewRun>) = open.map(|((index, _, child), _)| (index, child)).unzip();
        if children.is_empty() {
            return Ok(HashMap::new());
        }
        let started = self.insert_freeing(&children).await?;
        let taken = indexes.into_iter().zip(started).filter_map(|(index, outcome)| match outcome {
            StartOutcome::Created => None,
            StartOutcome::Replaced { .. } => None,
            StartOutcome::Existing { id, .. } | StartOutcome::Continued { id } => Some((index, id)),
            StartOutcome::Held { id } | StartOutcome::Moved { id } => Some((index, id)),
        });
        Ok(taken.collect())
    }

    /// Sets the crashes of runs, before a park of the same batch resets them.
    async fn set_crashes(&mut self, fence: &Fence) -> Result<(), T::Error> {
        let mut passed = BTreeMap::new();
        for (index, write) in self.writes.crashes.iter() {
            let outcome = fence.refusal(write.claim).unwrap_or_else(|| {
                passed.insert(write.claim.run_id, write);
                Outcome::Applied
            });
            self.outcomes.set(index, outcome);
        }
        let passed: Vec<&CrashesWrite> = passed.into_values().collect();
        if passed.is_empty() { Ok(()) } else { self.target.set_crashes(&passed).await }
    }

    /// Sends signals, and wakes the runs that got a new one.
    async fn send_signals(&mut self, fence: &Fence) -> Result<(), T::Error> {
        let signals = &self.writes.signals;
        let open: Vec<&NewSignal> =
            signals.writes().iter().copied().filter(|signal| fence.is_open(signal.run_id)).collect();
        let mut new = if open.is_empty() { HashSet::new() } else { self.target.insert_signals(&open).await? };
        let woken: BTreeSet<RunId> = new.iter().map(|(run, _)| *run).filter(|_| !planted("lost-wake")).collect();
        if !woken.is_empty() {
            self.target.wake_runs(&woken).await?;
        }
        // Of two signals with one key in a batch, the first made the row. A signal to a run that
        // has ended since may be a repetition, too.
        let key_of = |signal: &NewSignal| (signal.run_id, signal.key.as_str().to_owned());
        let mut others = Vec::new();
        for (index, signal) in signals.iter() {
            let outcome = match fence.status(signal.run_id) {
                None => SignalOutcome::Unknown,
                Some(_) if new.remove(&key_of(signal)) => SignalOutcome::Accepted,
                Some(_) => {
                    others.push((index, signal));
                    continue;
                }
            };
            self.outcomes.set(index, Outcome::Signaled(outcome));
        }
        if others.is_empty() {
            return Ok(());
        }
        let wanted: Vec<&NewSignal> = others.iter().map(|(_, signal)| *signal).collect();
        let accepted = self.target.find_signals(&wanted).await?;
        for (index, signal) in others {
            let outcome = match accepted.get(&key_of(signal)) {
                Some(first) => signal.key.repeat_outcome(first),
                None if fence.is_open(signal.run_id) => SignalOutcome::Full,
                None => SignalOutcome::Finished,
            };
            self.outcomes.set(index, Outcome::Signaled(outcome));
        }
        Ok(())
    }

    /// Applies the writes that end their claims: ends, parks, continues and retries.
    async fn release_claims(&mut self, fence: &mut Fence) -> Result<(), T::Error> {
        let Releases { ends, parks, continues, retries } = Releases::of(&self.writes, fence, &mut self.outcomes);
        if !ends.is_empty() || !parks.is_empty() {
            self.target.finish_claims(&ends, &parks).await?;
        }
        ends.iter().for_each(|write| self.ended.by_worker(write));
        if !continues.is_empty() {
            self.target.continue_runs(&continues).await?;
        }
        continues.iter().for_each(|write| self.ended.part(write.claim.run_id));
        if !retries.is_empty() {
            self.target.retry_runs(&retries).await?;
        }
        retries.iter().for_each(|write| self.ended.part(write.claim.run_id));
        let again = retries.iter().flat_map(|write| write.again.iter().map(|key| (write.claim.run_id, key.as_str())));
        reset_outcomes(self.target, again.collect()).await
    }

    async fn revive_runs(&mut self) -> Result<(), T::Error> {
        for (index, write) in self.writes.revivals.iter() {
            if let Some(refusal) = singles::find_rival(self.target, write).await? {
                self.outcomes.set(index, refusal);
                continue;
            }
            let outcome = if self.target.revive_run(write).await? {
                let again = write.again.iter().map(|key| (write.run_id, key.as_str()));
                reset_outcomes(self.target, again.collect()).await?;
                Outcome::Applied
            } else {
                match self.target.read_state(write.run_id).await? {
                    Some(run) if run.attempt == write.attempt + 1 => Outcome::Duplicate,
                    _ => Outcome::Lost,
                }
            };
            self.outcomes.set(index, outcome);
        }
        Ok(())
    }

    async fn pause_runs(&mut self) -> Result<(), T::Error> {
        for (index, run) in self.writes.pauses.iter() {
            let outcome = match self.target.pause_run(run).await? {
                Some(RunStatus::Running) => PauseOutcome::Requested,
                Some(_) => PauseOutcome::Paused,
                None => {
                    let run = self.target.read_state(run).await?;
                    run.map_or(PauseOutcome::Unknown, |run| PauseOutcome::Ended(run.status))
                }
            };
            self.outcomes.set(index, Outcome::Paused(outcome));
        }
        Ok(())
    }

    async fn resume_runs(&mut self) -> Result<(), T::Error> {
        for (index, run) in self.writes.resumes.iter() {
            let outcome = if self.target.resume_run(run).await? {
                ResumeOutcome::Resumed
            } else {
                match self.target.read_state(run).await? {
                    None => ResumeOutcome::Unknown,
                    Some(run) if run.status.is_terminal() => ResumeOutcome::Ended(run.status),
                    Some(_) => ResumeOutcome::NotPaused,
                }
            };
            self.outcomes.set(index, Outcome::Resumed(outcome));
        }
        Ok(())
    }

    /// One call per write: a process has few workers.
    async fn release_unknown_claims(&mut self) -> Result<(), T::Error> {
        for (index, (worker, known)) in self.writes.unknown_claims.iter() {
            let released = self.target.release_unknown_claims(worker, known).await?;
            self.outcomes.set(index, Outcome::Changed(released));
        }
        Ok(())
    }

    async fn expire_runs(&mut self) -> Result<(), T::Error> {
        for (index, (limit, patience)) in self.writes.expiries.iter() {
            let error = StoredError::deadline();
            let expired = self.target.expire_runs(limit, patience, &error).await?;
            self.outcomes.set(index, Outcome::Changed(expired.len() as u64));
            expired.into_iter().for_each(|run| self.ended.without_worker(run));
        }
        Ok(())
    }

    async fn cascade(&mut self) -> Result<BTreeSet<RunId>, T::Error> {
        cascade(self.target, std::mem::take(&mut self.ended)).await
    }

    /// One after the other: what the first claim takes, the second does not find.
    async fn claim_runs(&mut self) -> Result<(), T::Error> {
        for (index, request) in self.writes.claims.iter() {
            let claimed = match request.is_limited() {
                false => self.target.claim_runs(request, &[], DueRuns::All).await?,
                true => claim_limited(self.target, request).await?,
            };
            self.outcomes.set(index, Outcome::Claimed(claimed));
        }
        Ok(())
    }
}

/// Lets these failed steps be attempted again.
async fn reset_outcomes<T: BatchTarget>(target: &mut T, steps: Vec<(RunId, &str)>) -> Result<(), T::Error> {
    if steps.is_empty() { Ok(()) } else { target.reset_outcomes(&steps).await }
}
