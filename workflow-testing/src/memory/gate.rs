//! Gates, and when claims look at them.

use std::collections::BTreeMap;

use workflow_engine::model::{Lane, QueueChange, Timestamp};
use workflow_engine::store::{EndedTurn, GateList, ListedGate, LockedGate, TurnEnd, WaitingPlace};

use super::tables::Tables;

/// The gates of all queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates {
    /// How many runs a gate gives in one turn, by queue and name.
    weights: BTreeMap<(String, String), u32>,
    /// Until when the rate of a gate is used up, by queue and name.
    used: BTreeMap<(String, String), Timestamp>,
    turns: BTreeMap<(Lane, String), Turn>,
}

/// When claims look at a gate for the runs of a lane.
#[derive(Clone, Copy, Debug)]
struct Turn {
    open_at: Timestamp,
    /// Set while the gate is full: claims look at it again when a slot is free, or then.
    full_until: Option<Timestamp>,
    /// How many runs the gate has given in the turn that goes on.
    given: u32,
}

impl Gates {
    /// Adds a gate to a lane.
    pub(super) fn add(&mut self, lane: &Lane, gate: &str) {
        self.weights.entry((lane.queue.clone(), gate.to_owned())).or_insert(1);
        let turn = Turn { open_at: Timestamp::FAR_FUTURE, full_until: None, given: 0 };
        self.turns.entry((lane.clone(), gate.to_owned())).or_insert(turn);
    }

    /// Takes note of a run of this lane that is due then.
    pub(super) fn wake(&mut self, lane: &Lane, gate: &str, at: Timestamp) {
        if let Some(turn) = self.turns.get_mut(&(lane.clone(), gate.to_owned())) {
            turn.open_at = turn.open_at.min(at);
        }
    }

    /// Says until when the rate of a gate is used up.
    pub(super) fn set_used(&mut self, gate: &LockedGate, until: Timestamp) {
        self.used.insert((gate.lane.queue.clone(), gate.gate.clone()), until);
    }

    /// Returns until when the rate of a gate is used up.
    pub(super) fn used_until(&self, queue: &str, gate: &str) -> Timestamp {
        let used = self.used.get(&(queue.to_owned(), gate.to_owned()));
        used.copied().unwrap_or(Timestamp::from_micros(0))
    }

    /// Takes note that a run behind this gate no longer holds a slot.
    pub(super) fn free(&mut self, queue: &str, gate: &str) {
        let is_asked = |(lane, name): &(Lane, String)| lane.queue == queue && name == gate;
        self.turns.iter_mut().filter(|(key, _)| is_asked(key)).for_each(|(_, turn)| turn.full_until = None);
    }

    /// Applies a change of a queue. Its limits may have risen, so claims look again at every gate.
    pub(super) fn apply(&mut self, queue: &str, change: &QueueChange) {
        if let QueueChange::Weigh { gate, weight } = change {
            self.weights.insert((queue.to_owned(), gate.clone()), *weight);
        }
        for (_, turn) in self.turns.iter_mut().filter(|((lane, _), _)| lane.queue == queue) {
            (turn.open_at, turn.full_until) = (Timestamp::from_micros(0), None);
        }
    }

    /// Returns when it is time to look at a gate of this lane.
    pub(super) fn next_look(&self, lane: &Lane) -> Option<Timestamp> {
        let of_lane = self.turns.iter().filter(|((of, _), _)| of == lane);
        of_lane.map(|(_, turn)| turn.full_until.unwrap_or(turn.open_at)).min()
    }
}

/// Returns the gates of these lanes at which it is time to look.
pub(super) fn due(tables: &Tables, lanes: &[Lane], limit: u32, now: Timestamp) -> Vec<LockedGate> {
    let is_due = |(lane, _): &(Lane, String), turn: &Turn| {
        lanes.contains(lane) && turn.full_until.unwrap_or(turn.open_at) <= now
    };
    let mut due: Vec<_> = tables.gates.turns.iter().filter(|(key, turn)| is_due(key, turn)).collect();
    due.sort_by_key(|(_, turn)| turn.open_at);
    let locked = due.into_iter().take(limit as usize).map(|((lane, gate), turn)| {
        let weight = tables.gates.weights.get(&(lane.queue.clone(), gate.clone())).copied().unwrap_or(1);
        let limits = tables.queues().get(&lane.queue).map(|record| record.limits().per_gate).unwrap_or_default();
        let used_until = tables.gates.used_until(&lane.queue, gate);
        let Turn { open_at, given, .. } = *turn;
        LockedGate { lane: lane.clone(), gate: gate.clone(), weight, given, open_at, limits, used_until }
    });
    locked.collect()
}

/// Returns gates of a queue, in the order of their names.
pub(super) fn list(tables: &Tables, list: GateList<'_>) -> Vec<ListedGate> {
    let is_asked =
        |(queue, gate): &(String, String)| queue == list.queue && list.after.is_none_or(|after| gate.as_str() > after);
    let asked = tables.gates.weights.iter().filter(|(place, _)| is_asked(place)).take(list.limit as usize);
    let listed = asked.map(|((queue, gate), weight)| {
        let running = tables.running_behind(queue, gate).take(list.at_most as usize).count();
        let place = WaitingPlace { queue, gate: Some(gate), max_waiting: list.at_most };
        ListedGate {
            gate: gate.clone(),
            weight: *weight,
            used_until: tables.gates.used_until(queue, gate),
            running: u32::try_from(running).unwrap_or(u32::MAX),
            waiting: super::room::count(tables, &place),
        }
    });
    listed.collect()
}

/// Returns at most `limit` gates of these lanes behind which the lease of a run has ended.
pub(super) fn find_lapsed(tables: &Tables, lanes: &[Lane], limit: u32, now: Timestamp) -> Vec<(Lane, String)> {
    let is_lapsed = |(lane, gate): &&(Lane, String)| {
        lanes.contains(lane) && tables.first_lease_end(lane, gate).is_some_and(|at| at <= now)
    };
    tables.gates.turns.keys().filter(is_lapsed).take(limit as usize).cloned().collect()
}

/// Says when claims look at this gate again.
pub(super) fn end_turn(tables: &mut Tables, turn: EndedTurn<'_>) {
    let EndedTurn { gate: LockedGate { lane, gate, .. }, end, look_at, given } = turn;
    let next_due = tables.next_due_behind(lane, Some(gate)).unwrap_or(Timestamp::FAR_FUTURE);
    let lease_end = tables.first_lease_end(lane, gate).unwrap_or(Timestamp::FAR_FUTURE);
    if let Some(turn) = tables.gates.turns.get_mut(&(lane.clone(), gate.clone())) {
        turn.given = given;
        (turn.open_at, turn.full_until) = match end {
            TurnEnd::Open => (look_at.min(lease_end), None),
            TurnEnd::Drained => (look_at.max(next_due), None),
            TurnEnd::Full => (look_at.min(lease_end), Some(lease_end)),
        };
    }
}
