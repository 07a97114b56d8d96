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
    /// How many runs it has given in the turn that goes on.
    pub given: u32,
    /// Its place in the line.
    pub open_at: Timestamp,
    /// The limits of the gate.
    pub limits: GateLimits,
    /// Until when the rate of the gate is used up.
    pub used_until: Timestamp,
}

/// How much of the limits of a gate is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateUse {
    /// The number of running runs behind the gate.
    pub running: u32,
    /// Until when the rate of the gate is used up.
    pub used_until: Timestamp,
}

impl GateUse {
    /// The use of a gate that is not known.
    pub const NONE: Self = Self { running: 0, used_until: Timestamp::from_micros(0) };
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
    /// How many runs it has given in the turn that goes on.
    pub given: u32,
    /// The largest number of runs that the claim takes.
    pub at_most: u32,
}

/// How the turn of a gate in a claim has ended, after which claims look at it again at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTurn<'g> {
    /// The gate.
    pub gate: &'g LockedGate,
    /// How the turn has ended.
    pub end: TurnEnd,
    /// The new place in the line: claims look at the gate then, unless the end says that it is
    /// later.
    pub look_at: Timestamp,
    /// How many runs the gate has given in the turn that goes on; 0 if the turn is over.
    pub given: u32,
}

/// How the turn of a gate has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// More may be due. Claims look at the gate again at [`EndedTurn::look_at`], or earlier if the
    /// lease of one of its runs ends.
    Open,
    /// No more is due. Claims look at the gate again when its next run is due, or the lease of one
    /// ends.
    Drained,
    /// The limit is reached. Claims look at the gate again when one of its runs ends, is parked or
    /// loses its lease.
    Full,
}

impl TurnEnd {
    /// Returns the number that stands for this end in the statements of the stores.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::Open => 0,
            Self::Drained => 1,
            Self::Full => 2,
        }
    }
}
