//! The order in which the next claim takes turns over the lanes of its worker.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_engine::model::Lane;
use workflow_engine::store::ClaimedRun;

/// The lanes of a worker. Those of which the last claim took the fewest runs come first.
///
/// A claim takes one run of each lane in turns, in this order. If it takes fewer runs than there
/// are lanes with due runs, the lanes that it left out come first in the next claim. So a lane with
/// any number of due runs delays another one by at most one run of each lane. Within a lane, the
/// runs behind gates and the others take turns in the same way.
#[derive(Debug)]
pub(crate) struct LaneOrder(Mutex<Order>);

#[derive(Debug)]
struct Order {
    lanes: Vec<Lane>,
    /// The lanes from which the last claim took runs, but none from behind a gate.
    gates_first: HashSet<Lane>,
}

impl LaneOrder {
    pub(crate) fn new(lanes: Vec<Lane>) -> Self {
        Self(Mutex::new(Order { lanes, gates_first: HashSet::new() }))
    }

    /// Returns the lanes in the order for the next claim.
    pub(crate) fn next(&self) -> Vec<Lane> {
        self.order().lanes.clone()
    }

    /// Returns the lanes of these queues with gates whose gates come first in the next claim.
    pub(crate) fn gates_first(&self, gated: &[String]) -> Vec<Lane> {
        if gated.is_empty() {
            return Vec::new();
        }
        self.order().gates_first.iter().filter(|lane| gated.contains(&lane.queue)).cloned().collect()
    }

    /// Takes note of the runs of a claim. `gated` are the queues with gates that the worker knows.
    pub(crate) fn note(&self, claimed: &[ClaimedRun], gated: &[String]) {
        self.count(claimed.iter().map(|run| &run.lane));
        if !gated.is_empty() {
            self.count_gates(claimed.iter().map(|run| (&run.lane, run.gate.is_some())));
        }
    }

    fn count<'l>(&self, claimed: impl Iterator<Item = &'l Lane>) {
        let lanes = &mut self.order().lanes;
        if lanes.len() < 2 {
            return;
        }
        let mut counts: HashMap<&Lane, usize> = HashMap::new();
        claimed.for_each(|lane| *counts.entry(lane).or_default() += 1);
        lanes.sort_by_key(|lane| counts.get(lane).copied());
    }

    /// Takes note of claimed runs, each with its lane and whether it waited behind a gate.
    fn count_gates<'l>(&self, claimed: impl Iterator<Item = (&'l Lane, bool)>) {
        let mut behind_gates: HashMap<&Lane, bool> = HashMap::new();
        claimed.for_each(|(lane, is_behind)| *behind_gates.entry(lane).or_default() |= is_behind);
        let gates_first = &mut self.order().gates_first;
        for (lane, has_given) in behind_gates {
            if has_given {
                gates_first.remove(lane)
            } else {
                gates_first.insert(lane.clone())
            };
        }
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use workflow_engine::model::WorkerId;
    use workflow_engine::store::{ClaimPlace, ClaimRequest, GateTurn, claim_places, take_turns};

    use super::*;

    fn lane(workflow: &str) -> Lane {
        Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() }
    }

    /// Claims as a store does, from these lanes with so many due runs each.
    fn claim(order: &LaneOrder, due: &mut HashMap<String, usize>, limit: usize) -> String {
        let request = request(order, limit);
        let places = claim_places(&request, &[]);
        let lists = places.iter().map(|place| place.turns(vec![place.lane.clone(); due[&place.lane.workflow]]));
        let claimed = take_turns(lists.collect(), limit);
        order.count(claimed.iter());
        let taken = |lane: Lane| {
            due.entry(lane.workflow.clone()).and_modify(|due| *due -= 1);
            lane.workflow
        };
        claimed.into_iter().map(taken).collect()
    }

    fn request(order: &LaneOrder, limit: usize) -> ClaimRequest {
        let gated = vec!["default".to_owned()];
        ClaimRequest {
            worker: WorkerId::generate(),
            lanes: order.next(),
            limited: Vec::new(),
            gates_first: order.gates_first(&gated),
            gated,
            limit: u32::try_from(limit).unwrap(),
            lease: Duration::from_secs(1),
        }
    }

    /// A workflow without gates and one whose runs all wait behind one.
    #[test]
    fn gates_of_one_lane_take_turns_with_the_runs_of_another() {
        let order = LaneOrder::new(["a", "b"].map(lane).into());
        let gates = [GateTurn { lane: lane("b"), gate: "g".into(), weight: 1, given: 0, at_most: 9 }];
        let claims = (0..4).map(|_| {
            let request = request(&order, 1);
            let places = claim_places(&request, &gates);
            let due = |place: &ClaimPlace<'_>| usize::from(place.lane.workflow == "a" || place.gate.is_some()) * 9;
            let claimed = take_turns(places.iter().map(|place| place.turns(vec![*place; due(place)])).collect(), 1);
            order.count(claimed.iter().map(|place| place.lane));
            order.count_gates(claimed.iter().map(|place| (place.lane, place.gate.is_some())));
            claimed[0].lane.workflow.clone()
        });
        assert_eq!(claims.collect::<Vec<_>>(), ["a", "b", "a", "b"]);
    }

    /// All lanes and gates have more due runs than the claims take.
    #[test]
    fn claims_of_any_size_take_turns_over_gates_and_other_runs() {
        for (limit, expected) in [(1, ["a", "b", "ag", "bg"]), (2, ["a ag", "b bg", "a ag", "b bg"])] {
            let order = LaneOrder::new(["a", "b"].map(lane).into());
            let gates =
                ["a", "b"].map(|of| GateTurn { lane: lane(of), gate: "g".into(), weight: 1, given: 0, at_most: 9 });
            let claims = (0..4).map(|_| {
                let request = request(&order, limit);
                let places = claim_places(&request, &gates);
                let claimed = take_turns(places.iter().map(|place| place.turns(vec![*place; 9])).collect(), limit);
                order.count(claimed.iter().map(|place| place.lane));
                order.count_gates(claimed.iter().map(|place| (place.lane, place.gate.is_some())));
                let names = claimed.iter().map(|place| place.lane.workflow.clone() + place.gate.unwrap_or_default());
                names.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(claims.collect::<Vec<_>>(), expected, "{limit} runs per claim");
        }
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
