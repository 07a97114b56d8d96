//! The lanes and gates of a claim, from which it takes runs in turns.

use std::collections::HashSet;

use crate::model::Lane;

use super::{ClaimRequest, GateTurn};

/// A lane, or a gate of a lane, from which a claim takes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimPlace<'c> {
    /// The lane.
    pub lane: &'c Lane,
    /// The gate; `None` for the runs of the lane that wait behind no gate.
    pub gate: Option<&'c str>,
    /// How many runs it gives in one turn.
    pub weight: u32,
    /// The largest number of runs that the claim takes.
    pub at_most: u32,
}

/// Returns the lanes of a claim and then the gates, in the order of their turns. A lane that is
/// named twice has one turn.
#[must_use]
pub fn claim_places<'c>(request: &'c ClaimRequest, gates: &'c [GateTurn]) -> Vec<ClaimPlace<'c>> {
    let lanes = distinct_lanes(&request.lanes).into_iter();
    let lanes = lanes.map(|lane| ClaimPlace { lane, gate: None, weight: 1, at_most: request.limit });
    let gates = gates.iter().map(|turn| ClaimPlace {
        lane: &turn.lane,
        gate: Some(&turn.gate),
        weight: turn.weight,
        at_most: turn.at_most,
    });
    lanes.chain(gates).collect()
}

/// Returns these lanes in their order, each once: a lane that is named twice has one turn.
#[must_use]
pub fn distinct_lanes(lanes: &[Lane]) -> Vec<&Lane> {
    let mut seen = HashSet::new();
    lanes.iter().filter(|lane| seen.insert(*lane)).collect()
}

/// Takes items from these lists in turns: of each as many as its weight, in the order of the lists,
/// until there are `limit` items or none is left. A list with many items delays the first item of
/// another list by at most one turn of each list.
#[must_use]
pub fn take_turns<T>(lists: Vec<(u32, Vec<T>)>, limit: usize) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(|(weight, list)| (weight.max(1), list.into_iter())).collect();
    let mut taken = Vec::new();
    while taken.len() < limit && !lists.is_empty() {
        lists.retain_mut(|(weight, list)| {
            taken.extend(list.by_ref().take(*weight as usize));
            list.len() > 0
        });
    }
    taken.truncate(limit);
    taken
}

#[cfg(test)]
mod tests {
    use super::take_turns;

    #[test]
    fn a_long_list_delays_a_short_one_by_one_item() {
        let lists = || vec![(1, (0..1000).collect()), (1, vec![-1, -2]), (1, vec![]), (1, vec![-7])];
        assert_eq!(take_turns(lists(), 7), [0, -1, -7, 1, -2, 2, 3]);
        assert_eq!(take_turns(lists(), 2), [0, -1]);
        assert_eq!(take_turns(lists(), 0), [0; 0]);
        assert_eq!(take_turns(lists(), 5000).len(), 1003);
    }

    #[test]
    fn a_heavy_list_gives_more_in_one_turn() {
        let lists = || vec![(3, (0..1000).collect()), (1, vec![-1, -2, -3])];
        assert_eq!(take_turns(lists(), 7), [0, 1, 2, -1, 3, 4, 5]);
    }
}
