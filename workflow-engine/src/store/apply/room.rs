//! Starts that are refused if their queue or gate has no room.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::model::{NewRun, RunStatus};
use crate::store::batch_target::BatchTarget;
use crate::store::room::{AskingStart, Bounds, refuse_beyond};
use crate::store::{Outcome, StartOutcome};

use super::OpenBatch;

/// The behavior of a batch while another one starts runs in the same bounded queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The batch waits for the end of the other one. Allowed only while it holds nothing that the
    /// other one may wait for.
    Wait,
    /// The starts of the batch are answered [`Outcome::Busy`], and their senders send them again.
    GiveWay,
}

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Starts runs and returns their outcomes, in their order. The first `asking` runs ask for
    /// room; the others start in any case.
    pub(super) async fn start_asking(
        &mut self,
        runs: &[&NewRun],
        asking: usize,
        meeting: Meeting,
    ) -> Result<Vec<Outcome>, T::Error> {
        let queues: BTreeSet<&str> = runs.iter().take(asking).map(|run| run.lane.queue.as_str()).collect();
        if queues.is_empty() {
            return Ok(started(self.insert_freeing(runs).await?));
        }
        self.free_keys(runs, &queues).await?;
        if let Some(outcomes) = self.target.insert_unbounded_runs(runs).await? {
            return Ok(started(outcomes));
        }
        let bounds = self.target.lock_bounds(&queues, meeting == Meeting::Wait).await?;
        let mut refusals = self.find_refusals(&runs[..asking.min(runs.len())], &bounds).await?;
        let accepted: Vec<&NewRun> =
            runs.iter().enumerate().filter(|(place, _)| !refusals.contains_key(place)).map(|(_, run)| *run).collect();
        let outcomes = match accepted.is_empty() {
            true => Vec::new(),
            false => self.insert_freeing(&accepted).await?,
        };
        let mut outcomes = started(outcomes).into_iter();
        // A target that forgets a run leaves its write without an outcome, and the batch fails.
        Ok((0..runs.len()).map_while(|place| refusals.remove(&place).or_else(|| outcomes.next())).collect())
    }

    /// Returns the refusals of the starts that may not start, by their indexes.
    async fn find_refusals(
        &mut self,
        asking: &[&NewRun],
        bounds: &Bounds,
    ) -> Result<HashMap<usize, Outcome>, T::Error> {
        let is_busy = |run: &NewRun| bounds.busy.contains(&run.lane.queue);
        let mut refusals: HashMap<usize, Outcome> = asking
            .iter()
            .enumerate()
            .filter(|(_, run)| is_busy(run))
            .map(|(place, _)| (place, Outcome::Busy))
            .collect();
        let is_bounded = |run: &NewRun| bounds.limits.contains_key(&run.lane.queue) && !is_busy(run);
        let (indexes, runs): (Vec<usize>, Vec<&NewRun>) =
            asking.iter().enumerate().filter(|(_, run)| is_bounded(run)).map(|(place, run)| (place, *run)).unzip();
        if runs.is_empty() {
            return Ok(refusals);
        }
        let existing = self.find_existing(&runs).await?;
        let starts: Vec<AskingStart<'_>> =
            runs.iter().zip(0..).map(|(run, place)| AskingStart { run, exists: existing.contains(&place) }).collect();
        let mut places = Vec::new();
        for place in starts.iter().filter(|start| !start.exists).flat_map(|start| bounds.places(start.run)) {
            // The starts of a batch have few places, and neighbours mostly the same ones.
            if !places.iter().rev().any(|known| *known == place) {
                places.push(place);
            }
        }
        if places.is_empty() {
            return Ok(refusals);
        }
        let counts = self.target.count_waiting(&places).await?;
        let waiting = places.into_iter().zip(counts).collect();
        let refused = refuse_beyond(&starts, bounds, &waiting);
        let refused =
            indexes.into_iter().zip(refused).filter_map(|(place, full)| Some((place, Outcome::QueueFull(full?))));
        refusals.extend(refused);
        Ok(refusals)
    }

    /// Returns the indexes of the starts that add no run: their run exists, or one that keeps its
    /// key.
    async fn find_existing(&mut self, runs: &[&NewRun]) -> Result<HashSet<usize>, T::Error> {
        let mut existing = HashSet::new();
        for (place, outcome) in self.target.find_started(runs).await? {
            let loses_key = match outcome {
                StartOutcome::Existing { id, .. } | StartOutcome::Continued { id }
                    if runs.get(place).is_some_and(|run| run.may_take_key()) =>
                {
                    let holder = self.target.read_state(id).await?;
                    holder.is_some_and(|run| matches!(run.status, RunStatus::Failed | RunStatus::Canceled))
                }
                _ => false,
            };
            if !loses_key {
                existing.insert(place);
            }
        }
        Ok(existing)
    }

    /// Inserts runs after it has freed their keys.
    pub(super) async fn insert_freeing(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, T::Error> {
        self.free_keys(runs, &BTreeSet::new()).await?;
        self.target.insert_runs(runs).await
    }

    async fn free_keys(&mut self, runs: &[&NewRun], unless_bounded: &BTreeSet<&str>) -> Result<(), T::Error> {
        let freeing: Vec<&NewRun> = runs.iter().copied().filter(|run| run.may_take_key()).collect();
        if freeing.is_empty() { Ok(()) } else { self.target.free_keys(&freeing, unless_bounded).await }
    }
}

fn started(outcomes: Vec<StartOutcome>) -> Vec<Outcome> {
    outcomes.into_iter().map(Outcome::Started).collect()
}
