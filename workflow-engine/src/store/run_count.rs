//! Counts of what has not ended or has failed, and of what workers and steps hold. Each reads a
//! bounded number of rows.

use crate::model::{RunId, RunStatus, Timestamp, WorkerId};

/// How many runs are in which state, as far as the counted rows say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// How many pending and parked runs were looked at, the newest first. If this is the largest
    /// number, there may be more, and the next four counts are those among the runs that were
    /// looked at.
    pub waiting: u32,
    /// Of these, the pending ones.
    pub pending: u32,
    /// Of these, the parked ones.
    pub parked: u32,
    /// Of these, the pending ones that are due later.
    pub delayed: u32,
    /// Of these, the paused ones.
    pub paused: u32,
    /// The parked runs with an error, counted for themselves.
    pub stuck: u32,
    /// The pending and parked runs that may be claimed, counted for themselves.
    pub due: u32,
    /// The running runs that were looked at.
    pub running: u32,
    /// Of these, the paused ones.
    pub running_paused: u32,
    /// How many failed and canceled runs were looked at, the newest first.
    pub ended: u32,
    /// Of these, the failed ones.
    pub failed: u32,
}

/// How many runs each worker holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldRuns {
    /// The running runs that were looked at.
    pub runs: u32,
    /// How many of these each worker holds, in the order of the ids of workers.
    pub by_worker: Vec<(WorkerId, u32)>,
}

/// How many seats of a limit are taken, and how many steps wait for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatCounts {
    /// The seats that running runs hold.
    pub held: u32,
    /// The steps that wait.
    pub waiting: u32,
}

/// Which seats of a limit to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatList<'q> {
    /// The name of the limit.
    pub limit: &'q str,
    /// `true` for the steps that wait, `false` for the seats that were taken.
    pub waiting: bool,
    /// Only seats behind this key and time of asking.
    pub after: (&'q str, Timestamp),
    /// The largest number of seats.
    pub at_most: u32,
}

/// A seat in a list, or a step that waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSeat {
    /// The run.
    pub run_id: RunId,
    /// The workflow of the run.
    pub workflow: String,
    /// The status of the run.
    pub run_status: RunStatus,
    /// The epoch of the run: see [`ListedSeat::epoch`].
    pub run_epoch: i64,
    /// The key of the step.
    pub step_key: String,
    /// The key of the line.
    pub key: String,
    /// When the step asked.
    pub asked_at: Timestamp,
    /// When the waiting step was called to take a free seat.
    pub called_at: Option<Timestamp>,
    /// When the waiting step asks again by itself.
    pub asks_at: Option<Timestamp>,
    /// The epoch that took the seat. The seat is held while the run is running under this epoch.
    /// `None`: the step waits.
    pub epoch: Option<i64>,
}

/// Which gates of a queue to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateList<'q> {
    /// The queue.
    pub queue: &'q str,
    /// Only gates with names after this one.
    pub after: Option<&'q str>,
    /// The largest number of gates.
    pub limit: u32,
    /// The largest number of runs to count behind a gate.
    pub at_most: u32,
}

/// A gate in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGate {
    /// The name.
    pub gate: String,
    /// How many runs it gives in one turn.
    pub weight: u32,
    /// Until when its rate is used up.
    pub used_until: Timestamp,
    /// How many runs behind it are running.
    pub running: u32,
    /// How many runs behind it wait and have not begun.
    pub waiting: u32,
}
