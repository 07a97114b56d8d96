//! The lanes of a claim, from which it takes runs in turns.

use std::collections::HashSet;

use crate::model::Lane;

/// Returns these lanes in their order, each once: a lane that is named twice has one turn.
#[must_use]
pub fn distinct_lanes(lanes: &[Lane]) -> Vec<&Lane> {
    let mut seen = HashSet::new();
    lanes.iter().filter(|lane| seen.insert(*lane)).collect()
}

/// Takes items from these lists in turns: one of each, in the order of the lists, until there are
/// `limit` items or none is left. A list with many items delays the first item of another list by
/// at most one item per list.
#[must_use]
pub fn take_turns<T>(lists: Vec<Vec<T>>, limit: usize) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut taken = Vec::new();
    while taken.len() < limit && !lists.is_empty() {
        lists.retain_mut(|list| match list.next() {
            Some(item) => {
                taken.push(item);
                true
            }
            None => false,
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
        let lists = || vec![(0..1000).collect(), vec![-1, -2], vec![], vec![-7]];
        assert_eq!(take_turns(lists(), 7), [0, -1, -7, 1, -2, 2, 3]);
        assert_eq!(take_turns(lists(), 2), [0, -1]);
        assert_eq!(take_turns(lists(), 0), [0; 0]);
        assert_eq!(take_turns(lists(), 5000).len(), 1003);
    }
}
