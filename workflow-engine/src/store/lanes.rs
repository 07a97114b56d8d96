//! A claim, and the lanes and gates from which it takes runs in turns.

use std::collections::HashSet;
use std::time::Duration;

use crate::model::{Lane, WorkerId};

use super::GateTurn;

/// Claims due runs of these lanes: one of each lane in turns, in the order of the lanes, and of
/// each lane the longest due first. Each claim adds 1 to the run's epoch and sets its lease. Claims
/// at most `limit` runs and skips runs that another transaction locks.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker that claims.
    pub worker: WorkerId,
    /// The lanes to claim from, in the order of their turns.
    pub lanes: Vec<Lane>,
    /// The queues of these lanes that have limits or are paused, as far as the worker knows. The
    /// claim looks at the records of no other ones.
    pub limited: Vec<String>,
    /// The queues of these lanes whose runs wait behind gates, as far as the worker knows. The
    /// claim looks at the gates of no other ones.
    pub gated: Vec<String>,
    /// The lanes whose runs behind gates have their turns before the other runs of the lane.
    pub gates_first: Vec<Lane>,
    /// The largest number of runs.
    pub limit: u32,
    /// How long the claims last without a renewal.
    pub lease: Duration,
}

impl ClaimRequest {
    /// Returns whether the claim looks at the records of queues or at gates.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !self.limited.is_empty() || !self.gated.is_empty()
    }
}

/// A lane, or a gate of a lane, from which a claim takes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimPlace<'c> {
    /// The lane.
    pub lane: &'c Lane,
    /// The gate; `None` for the runs of the lane that wait behind no gate.
    pub gate: Option<&'c str>,
    /// How many runs it gives in one turn.
    pub weight: u32,
    /// How many runs it has given in the turn that goes on, in earlier claims.
    pub given: u32,
    /// The largest number of runs that the claim takes.
    pub at_most: u32,
}

/// Returns the lanes and gates of a claim, in the order of their turns. A lane that is named twice
/// has one turn. Its gates come directly after it, or before it if the request says so.
#[must_use]
pub fn claim_places<'c>(request: &'c ClaimRequest, gates: &'c [GateTurn]) -> Vec<ClaimPlace<'c>> {
    let place_of = |turn: &'c GateTurn| ClaimPlace {
        lane: &turn.lane,
        gate: Some(&turn.gate),
        weight: turn.weight,
        given: turn.given,
        at_most: turn.at_most,
    };
    let mut places = Vec::with_capacity(request.lanes.len() + gates.len());
    for lane in distinct_lanes(&request.lanes) {
        let own = ClaimPlace { lane, gate: None, weight: 1, given: 0, at_most: request.limit };
        let of_gates = gates.iter().filter(|turn| turn.lane == *lane).map(place_of);
        match request.gates_first.contains(lane) {
            true => places.extend(of_gates.chain([own])),
            false => places.extend(std::iter::once(own).chain(of_gates)),
        }
    }
    // A claim of lapsed runs also names gates of lanes that it does not ask for.
    places.extend(gates.iter().filter(|turn| !request.lanes.contains(&turn.lane)).map(place_of));
    places
}

/// Returns these lanes in their order, each once: a lane that is named twice has one turn.
#[must_use]
pub fn distinct_lanes(lanes: &[Lane]) -> Vec<&Lane> {
    let mut seen = HashSet::new();
    lanes.iter().filter(|lane| seen.insert(*lane)).collect()
}

impl ClaimPlace<'_> {
    /// Returns these runs of the place, ready for [`take_turns`].
    pub fn turns<T>(&self, runs: Vec<T>) -> Turns<T> {
        Turns { weight: self.weight.max(1), given: self.given, items: runs }
    }
}

/// A list from which [`take_turns`] takes items.
#[derive(Debug)]
pub struct Turns<T> {
    weight: u32,
    given: u32,
    items: Vec<T>,
}

/// Takes items from these lists in turns: of each as many as its weight, in the order of the lists,
/// until there are `limit` items or none is left. The first turn of a list gives only what is left
/// of its turn from earlier claims. A list with many items delays the first item of another list by
/// at most one turn of each list.
#[must_use]
pub fn take_turns<T>(lists: Vec<Turns<T>>, limit: usize) -> Vec<T> {
    let begin = |list: Turns<T>| (list.weight, list.weight - list.given % list.weight, list.items.into_iter());
    let mut lists: Vec<_> = lists.into_iter().map(begin).collect();
    let mut taken = Vec::new();
    while taken.len() < limit && !lists.is_empty() {
        lists.retain_mut(|(weight, turn, list)| {
            taken.extend(list.by_ref().take(*turn as usize));
            *turn = *weight;
            list.len() > 0
        });
    }
    taken.truncate(limit);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weight: u32, given: u32, items: impl IntoIterator<Item = i32>) -> Turns<i32> {
        Turns { weight, given, items: items.into_iter().collect() }
    }

    #[test]
    fn a_long_list_delays_a_short_one_by_one_item() {
        let lists = || vec![turns(1, 0, 0..1000), turns(1, 0, [-1, -2]), turns(1, 0, []), turns(1, 0, [-7])];
        assert_eq!(take_turns(lists(), 7), [0, -1, -7, 1, -2, 2, 3]);
        assert_eq!(take_turns(lists(), 2), [0, -1]);
        assert_eq!(take_turns(lists(), 0), [0; 0]);
        assert_eq!(take_turns(lists(), 5000).len(), 1003);
    }

    #[test]
    fn a_heavy_list_gives_more_in_one_turn() {
        let lists = |given| vec![turns(3, given, 0..1000), turns(1, 0, [-1, -2, -3])];
        assert_eq!(take_turns(lists(0), 7), [0, 1, 2, -1, 3, 4, 5]);
        assert_eq!(take_turns(lists(2), 7), [0, -1, 1, 2, 3, -2, 4], "its turn goes on");
        assert_eq!(take_turns(lists(3), 2), [0, 1], "its turn is over");
    }

    #[test]
    fn the_gates_of_a_lane_come_after_it_or_before_it() {
        let lane = |workflow: &str| Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() };
        let turn =
            |of: &str, gate: &str| GateTurn { lane: lane(of), gate: gate.into(), weight: 1, given: 0, at_most: 9 };
        let gates = [turn("a", "g"), turn("b", "h"), turn("b", "i")];
        for (gates_first, expected) in
            [(vec![], "a ag b bh bi"), (vec![lane("a")], "ag a b bh bi"), (vec![lane("b"), lane("c")], "a ag bh bi b")]
        {
            let request = ClaimRequest {
                worker: WorkerId::generate(),
                lanes: vec![lane("a"), lane("b"), lane("a")],
                limited: Vec::new(),
                gated: Vec::new(),
                gates_first,
                limit: 9,
                lease: Duration::from_secs(1),
            };
            let places = claim_places(&request, &gates);
            let named: Vec<_> =
                places.iter().map(|place| place.lane.workflow.clone() + place.gate.unwrap_or_default()).collect();
            assert_eq!(named.join(" "), expected);
        }
    }
}
