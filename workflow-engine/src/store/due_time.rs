use crate::model::Timestamp;

/// When the next run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The time now.
    pub now: Timestamp,
    /// The earliest due time, past or future; `None` if no run of the lanes waits for a time.
    pub at: Option<Timestamp>,
}
