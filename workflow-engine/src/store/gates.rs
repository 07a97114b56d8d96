//! Gates, as claims see them.

use crate::model::{GateLimits, Lane, Timestamp};

/// A gate that a claim has locked, with a lane whose runs wait behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedGate {
    /// The lane.
    pub lane: Lane,
    /// The name of the gate in the queue of the lane.
    pub gate: String,
    /// How many runs the gate gives in one turn.
    pub weight: u32,
    /// The limits of the gate.
    pub limits: GateLimits,
    /// Until when the rate of the gate is used up.
    pub spent_until: Timestamp,
}

/// A gate from which a claim takes runs of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateTurn {
    /// The lane.
    pub lane: Lane,
    /// The name of the gate in the queue of the lane.
    pub gate: String,
    /// How many runs the gate gives in one turn.
    pub weight: u32,
    /// The largest number of runs that the claim takes.
    pub at_most: u32,
}

/// How the turn of a gate has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// More may be due. The gate goes to the end of the line.
    Served,
    /// No more is due. Claims look at the gate again when its next run is due.
    Drained,
    /// The limit is reached. Claims look at the gate again when one of its runs ends, is parked or
    /// loses its lease.
    Full,
    /// The rate is used up. Claims look at the gate again then.
    Until(Timestamp),
}
