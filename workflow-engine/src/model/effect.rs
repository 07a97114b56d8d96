use super::{EventWait, LeftWait, NewRun, SeatLine};

/// A change that is committed together with the row of an attempt, or not at all.
#[derive(Clone, Debug, Default)]
pub enum Effect {
    /// No change.
    #[default]
    None,
    /// Removes the signal with this number from the inbox of the run.
    Consume {
        /// The signal's number in the inbox.
        seq: i64,
    },
    /// Starts a child of the run.
    Start(Box<NewRun>),
    /// Registers the wait of the step for an event.
    AwaitEvent(Box<EventWait>),
    /// Ends the wait of the step for an event that has not been delivered.
    LeaveEvent(Box<LeftWait>),
    /// Asks for a seat of a limit, for the body of the step.
    TakeSeat(Box<SeatLine>),
    /// Gives the seat of the step back, or its place among those that wait for one.
    LeaveSeat(Box<SeatLine>),
}
