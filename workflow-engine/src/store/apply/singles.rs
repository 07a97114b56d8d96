//! Starts with a single key, which at most one run of a workflow has at a time.

use std::collections::{BTreeSet, HashSet};

use crate::model::{MovedRun, NewRun, NewSingle, RunId, WhenTaken};

use super::OpenBatch;
use super::room::Meeting;
use crate::store::batch_target::BatchTarget;
use crate::store::locks::Locks;
use crate::store::{CancelOutcome, FoundSingle, Outcome, ReviveWrite, SingleRun, StartOutcome};

impl<'b, T: BatchTarget> OpenBatch<'b, T> {
    /// Locks the single keys of starts before any run is locked, and adds the runs that the starts
    /// may change to the locks: all runs of a batch are locked at once, in one order. Returns the
    /// indexes of the starts whose keys another transaction holds. Their senders send them again,
    /// because this batch must not wait for a transaction of the application.
    pub(super) async fn lock_singles(&mut self, locks: &mut Locks) -> Result<HashSet<usize>, T::Error> {
        let starts: Vec<(usize, &NewRun)> = self.writes.singles.iter().collect();
        if starts.is_empty() {
            return Ok(HashSet::new());
        }
        let refused = self.target.lock_singles(&singles(&starts)).await?;
        let busy = refused.into_iter().filter_map(|place| Some(starts.get(place)?.0)).collect::<HashSet<usize>>();
        let changing: Vec<(usize, &NewRun)> = starts
            .into_iter()
            .filter(|(index, run)| !busy.contains(index) && (run.may_replace() || run.moved().is_some()))
            .collect();
        if changing.is_empty() {
            return Ok(busy);
        }
        let found = self.target.find_singles(&singles(&changing)).await?;
        for ((_, run), FoundSingle { exists, holder }) in changing.iter().zip(found) {
            match run.may_replace() {
                true => locks.add_canceled(holder.filter(|_| !exists)),
                false => locks.add_changed(run.moved().map(|moved| moved.id)),
            }
        }
        Ok(busy)
    }

    /// Starts the runs with a single key, after all writes that may end the run that has it, and
    /// before cancels.
    pub(super) async fn start_singles(&mut self, busy: &HashSet<usize>) -> Result<(), T::Error> {
        let mut open: Vec<(usize, &'b NewRun)> = self.writes.singles.iter().collect();
        for index in busy {
            self.outcomes.set(*index, Outcome::Busy);
        }
        open.retain(|(index, _)| !busy.contains(index));
        // Of several starts with one key, each must find what the one before it did.
        while !open.is_empty() {
            let mut keys = HashSet::new();
            let (round, later) = open
                .into_iter()
                .partition(|(_, run)| keys.insert((&run.lane.workflow, run.single.as_ref().map(|single| &single.key))));
            self.start_round(round).await?;
            open = later;
        }
        Ok(())
    }

    /// Starts runs that have different keys. The inserts come first: if the lane of a run has no
    /// row, nothing else of its start has happened yet.
    async fn start_round(&mut self, round: Vec<(usize, &'b NewRun)>) -> Result<(), T::Error> {
        let found = self.target.find_singles(&singles(&round)).await?;
        let (mut new, mut moved) = (Vec::new(), Vec::new());
        for ((index, run), found) in round.into_iter().zip(found) {
            match decide(run, found) {
                Decision::Answer(outcome) => self.outcomes.set(index, Outcome::Started(outcome)),
                Decision::Start { replaced } => new.push((index, run, replaced)),
                Decision::Move(target) => moved.push((index, target, run)),
            }
        }
        self.insert_singles(new).await?;
        if !moved.is_empty() {
            let runs: Vec<(&MovedRun, &NewRun)> = moved.iter().map(|(_, target, run)| (*target, *run)).collect();
            self.target.move_runs(&runs).await?;
        }
        for (index, target, _) in moved {
            self.outcomes.set(index, Outcome::Started(StartOutcome::Moved { id: target.id }));
        }
        Ok(())
    }

    /// Inserts runs, cancels those that they replace, and then moves the keys.
    async fn insert_singles(&mut self, new: Vec<(usize, &'b NewRun, Option<RunId>)>) -> Result<(), T::Error> {
        if new.is_empty() {
            return Ok(());
        }
        let runs: Vec<&NewRun> = new.iter().map(|(_, run, _)| *run).collect();
        // The batch holds runs, for which another one may wait that starts runs in this queue.
        let started = self.start_asking(&runs, runs.len(), Meeting::GiveWay).await?;
        let (mut created, mut replaced) = (Vec::new(), BTreeSet::new());
        for ((index, run, holder), outcome) in new.into_iter().zip(started) {
            let outcome = match (outcome, holder) {
                (Outcome::Started(StartOutcome::Created), holder) => {
                    created.push((index, run));
                    replaced.extend(holder);
                    Outcome::Started(holder.map_or(StartOutcome::Created, |id| StartOutcome::Replaced { id }))
                }
                (outcome, _) => outcome,
            };
            self.outcomes.set(index, outcome);
        }
        if !replaced.is_empty() {
            let replaced: Vec<RunId> = replaced.into_iter().collect();
            for (run, outcome) in self.target.cancel_runs(&replaced).await? {
                if outcome == CancelOutcome::Canceled {
                    self.ended.without_worker(run);
                }
            }
            self.target.clear_single_keys(&replaced).await?;
        }
        if created.is_empty() { Ok(()) } else { self.target.set_single_keys(&singles(&created)).await }
    }
}

/// Returns the refusal of a revival whose run would get a single key back that another run has now.
pub(super) async fn find_rival<T: BatchTarget>(
    target: &mut T,
    write: &ReviveWrite,
) -> Result<Option<Outcome>, T::Error> {
    let Some((workflow, key)) = target.read_lost_single(write.run_id, write.attempt).await? else { return Ok(None) };
    let single = SingleRun { run_id: write.run_id, workflow: &workflow, key: &key };
    if !target.lock_singles(&[single]).await?.is_empty() {
        return Ok(Some(Outcome::Busy));
    }
    let holder = target.find_singles(&[single]).await?.first().and_then(|found| found.holder);
    Ok(holder.map(|id| Outcome::SingleTaken { id }))
}

/// The way in which a start is applied.
enum Decision<'w> {
    Answer(StartOutcome),
    Start { replaced: Option<RunId> },
    Move(&'w MovedRun),
}

/// Decides about a start, given the run that has its key. A run that exists was started by an
/// earlier commit of the same write.
fn decide(run: &NewRun, FoundSingle { exists, holder }: FoundSingle) -> Decision<'_> {
    if exists {
        return Decision::Answer(StartOutcome::Created);
    }
    let Some(id) = holder else {
        return Decision::Start { replaced: None };
    };
    match run.single.as_ref().map(|NewSingle { taken, .. }| taken) {
        Some(WhenTaken::Replace) => Decision::Start { replaced: Some(id) },
        Some(WhenTaken::Move(moved)) if moved.id == id => Decision::Move(moved),
        Some(WhenTaken::Move(_) | WhenTaken::Keep) | None => Decision::Answer(StartOutcome::Held { id }),
    }
}

/// Returns the runs of these starts with their keys, in their order.
fn singles<'w>(starts: &[(usize, &'w NewRun)]) -> Vec<SingleRun<'w>> {
    let single = |run: &'w NewRun| {
        let key = &run.single.as_ref()?.key;
        Some(SingleRun { run_id: run.id, workflow: &run.lane.workflow, key })
    };
    starts.iter().filter_map(|(_, run)| single(run)).collect()
}
