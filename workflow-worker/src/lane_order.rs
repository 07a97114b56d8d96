//! The order in which the next claim takes turns over the lanes of its worker.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_engine::model::Lane;
use workflow_engine::store::ClaimedRun;

/// The lanes of a worker. Those of which the last claim took the fewest runs come first.
///
/// A claim takes one run of each lane in turns, in this order. If it takes fewer runs than there
/// are lanes with due runs, the lanes that it left out come first in the next claim. So a lane with
/// any number of due runs delays another one by at most one run of each lane.
#[derive(Debug)]
pub(crate) struct LaneOrder(Mutex<Vec<Lane>>);

impl LaneOrder {
    pub(crate) fn new(lanes: Vec<Lane>) -> Self {
        Self(Mutex::new(lanes))
    }

    /// Returns the lanes in the order for the next claim.
    pub(crate) fn next(&self) -> Vec<Lane> {
        self.lanes().clone()
    }

    /// Takes note of the runs of a claim.
    pub(crate) fn note(&self, claimed: &[ClaimedRun]) {
        self.count(claimed.iter().map(|run| &run.lane));
    }

    fn count<'l>(&self, claimed: impl Iterator<Item = &'l Lane>) {
        let mut lanes = self.lanes();
        if lanes.len() < 2 {
            return;
        }
        let mut counts: HashMap<&Lane, usize> = HashMap::new();
        claimed.for_each(|lane| *counts.entry(lane).or_default() += 1);
        lanes.sort_by_key(|lane| counts.get(lane).copied());
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use workflow_engine::store::take_turns;

    use super::*;

    fn lane(workflow: &str) -> Lane {
        Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() }
    }

    /// Claims as a store does, from these lanes with so many due runs each.
    fn claim(order: &LaneOrder, due: &mut HashMap<String, usize>, limit: usize) -> String {
        let lists = order.next().into_iter().map(|lane| (1, vec![lane.clone(); due[&lane.workflow]]));
        let claimed = take_turns(lists.collect(), limit);
        order.count(claimed.iter());
        let taken = |lane: Lane| {
            due.entry(lane.workflow.clone()).and_modify(|due| *due -= 1);
            lane.workflow
        };
        claimed.into_iter().map(taken).collect()
    }

    #[test]
    fn claims_of_any_size_take_turns_over_the_lanes_with_due_runs() {
        for (limit, expected) in [
            (1, ["a", "c", "a", "c", "a", "b", "c", "a", "b", "c"]),
            (2, ["ac", "ac", "ac", "ac", "ac", "ba", "cb", "ac", "ba", "cb"]),
            (3, ["aca", "cac", "aca", "cac", "aca", "bca", "bca", "bca", "bca", "bca"]),
        ] {
            let order = LaneOrder::new(["a", "b", "c"].map(lane).into());
            let mut due = HashMap::from([("a".into(), 1000), ("b".into(), 0), ("c".into(), 1000)]);
            let mut claims = Vec::new();
            for number in 0..10 {
                if number == 5 {
                    due.insert("b".into(), 1000);
                }
                claims.push(claim(&order, &mut due, limit));
            }
            assert_eq!(claims, expected, "{limit} runs per claim");
        }
    }
}
