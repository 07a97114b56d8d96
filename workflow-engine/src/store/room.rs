//! The room of queues and gates that have a bound for the runs that wait and have not begun.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::model::{FullQueue, NewRun, QueueLimits, RunId};

/// The bounds of queues, as a batch has read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The limits of the queues that have a bound, or whose gates have one.
    pub limits: BTreeMap<String, QueueLimits>,
    /// The bounded queues in which another transaction is about to start runs.
    pub busy: BTreeSet<String>,
}

impl Bounds {
    /// Returns the places whose bounds hold for this run: its gate, and its queue.
    pub(super) fn places<'r>(&self, run: &'r NewRun) -> impl Iterator<Item = WaitingPlace<'r>> + use<'r> {
        let limits = self.limits.get(&run.lane.queue).copied().unwrap_or_default();
        WaitingPlace::of(&run.lane.queue, run.gate.as_deref(), limits)
    }
}

/// A queue, or a gate of it, that has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitingPlace<'r> {
    /// The queue.
    pub queue: &'r str,
    /// The gate. `None`: all of the queue, with its gates.
    pub gate: Option<&'r str>,
    /// The largest number of runs that may wait there.
    pub max_waiting: u32,
}

impl<'r> WaitingPlace<'r> {
    /// Returns the places whose bounds hold for a run in this queue behind this gate, if any: its
    /// gate, and its queue.
    pub fn of(queue: &'r str, gate: Option<&'r str>, limits: QueueLimits) -> impl Iterator<Item = Self> + use<'r> {
        let gate = gate.zip(limits.per_gate.max_waiting);
        let gate = gate.map(|(gate, max_waiting)| Self { queue, gate: Some(gate), max_waiting });
        let queue = limits.max_waiting.map(|max_waiting| Self { queue, gate: None, max_waiting });
        gate.into_iter().chain(queue)
    }
}

/// A start that asks for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskingStart<'r> {
    pub run: &'r NewRun,
    /// Whether its run, or one that keeps its key, exists already. Such a start adds no run.
    pub exists: bool,
}

/// Decides which of these starts, in their order, may start: each that adds no run, and each whose
/// places have room beside the runs that wait there and the starts before it. Returns the refusals
/// of the others.
pub(super) fn refuse_beyond<'r>(
    starts: &[AskingStart<'r>],
    bounds: &Bounds,
    waiting: &HashMap<WaitingPlace<'r>, u32>,
) -> Vec<Option<FullQueue>> {
    let mut taken: HashMap<WaitingPlace<'r>, u32> = waiting.clone();
    let (mut ids, mut keys): (HashSet<RunId>, HashSet<(&str, &str)>) = Default::default();
    let mut decide = |AskingStart { run, exists }: &AskingStart<'r>| {
        let key = run.key.as_deref().map(|key| (run.lane.workflow.as_str(), key));
        // Of several starts with one id or key, the first adds the run.
        if *exists || ids.contains(&run.id) || key.is_some_and(|key| keys.contains(&key)) {
            return None;
        }
        let places: Vec<WaitingPlace<'r>> = bounds.places(run).collect();
        let is_full = |place: &&WaitingPlace<'r>| taken.get(*place).copied().unwrap_or(0) >= place.max_waiting;
        if let Some(WaitingPlace { queue, gate, max_waiting }) = places.iter().find(is_full) {
            return Some(FullQueue::new(queue, *gate, *max_waiting));
        }
        places.into_iter().for_each(|place| *taken.entry(place).or_default() += 1);
        ids.insert(run.id);
        keys.extend(key);
        None
    };
    starts.iter().map(&mut decide).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{GateLimits, KeyReuse, Lane, StartTime};

    fn run(queue: &str, gate: Option<&str>, key: Option<&str>) -> NewRun {
        NewRun {
            id: RunId::generate(),
            lane: Lane { queue: queue.into(), workflow: "checkout".into(), version: "1".into() },
            gate: gate.map(str::to_owned),
            input: "null".into(),
            key: key.map(str::to_owned),
            key_reuse: KeyReuse::Never,
            single: None,
            priority: None,
            start: StartTime::Now,
            deadline: None,
            tags: BTreeMap::new(),
            parent: None,
            depth: 0,
            trace: None,
        }
    }

    fn bounds(limits: QueueLimits) -> Bounds {
        Bounds { limits: BTreeMap::from([("mail".to_owned(), limits)]), busy: BTreeSet::new() }
    }

    /// Returns the refusals if these runs wait in the place of each bound already.
    fn refused(runs: &[NewRun], bounds: &Bounds, waiting: u32) -> Vec<Option<FullQueue>> {
        let starts: Vec<AskingStart<'_>> = runs.iter().map(|run| AskingStart { run, exists: false }).collect();
        let waiting = runs.iter().flat_map(|run| bounds.places(run)).map(|place| (place, waiting)).collect();
        refuse_beyond(&starts, bounds, &waiting)
    }

    fn full(gate: Option<&str>, max_waiting: u32) -> Option<FullQueue> {
        Some(FullQueue::new("mail", gate, max_waiting))
    }

    #[test]
    fn starts_beyond_the_bound_are_refused_in_their_order() {
        let runs = [(); 4].map(|()| run("mail", None, None));
        let bounds = bounds(QueueLimits::none().max_waiting(3));
        assert_eq!(refused(&runs, &bounds, 1), [None, None, full(None, 3), full(None, 3)]);
        assert_eq!(refused(&runs[..1], &bounds, 7), [full(None, 3)], "the bound was lowered");
    }

    #[test]
    fn a_bound_of_zero_takes_no_start() {
        let bounds = bounds(QueueLimits::none().max_waiting(0));
        assert_eq!(refused(&[run("mail", None, None)], &bounds, 0), [full(None, 0)]);
    }

    #[test]
    fn a_queue_without_a_bound_takes_every_start() {
        let bounds = bounds(QueueLimits::none().max_waiting(0));
        assert_eq!(refused(&[run("other", None, None)], &bounds, 0), [None]);
    }

    #[test]
    fn each_gate_has_a_bound_of_its_own_beside_that_of_the_queue() {
        let limits = QueueLimits::none().max_waiting(3).per_gate(GateLimits::none().max_waiting(1));
        let runs = [Some("a"), Some("a"), Some("b"), None, Some("c")].map(|gate| run("mail", gate, None));
        let refusals = refused(&runs, &bounds(limits), 0);
        assert_eq!(refusals, [None, full(Some("a"), 1), None, None, full(None, 3)], "a refused start takes no room");
    }

    #[test]
    fn a_start_whose_run_exists_takes_no_room() {
        let bounds = bounds(QueueLimits::none().max_waiting(1));
        let runs = [(); 2].map(|()| run("mail", None, None));
        let starts = [(&runs[0], true), (&runs[1], false)].map(|(run, exists)| AskingStart { run, exists });
        assert_eq!(refuse_beyond(&starts, &bounds, &HashMap::new()), [None, None]);
    }

    #[test]
    fn of_several_starts_with_one_key_the_first_takes_the_room() {
        let bounds = bounds(QueueLimits::none().max_waiting(1));
        let keyed = ["k", "k", "l", "k"].map(|key| run("mail", None, Some(key)));
        assert_eq!(refused(&keyed, &bounds, 0), [None, None, full(None, 1), None]);
        assert_eq!(refused(&keyed[..2], &bounds, 1), [full(None, 1), full(None, 1)]);
        let twice = run("mail", None, None);
        assert_eq!(refused(&[twice.clone(), twice], &bounds, 0), [None, None], "one id is one run");
    }
}
