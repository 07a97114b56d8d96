use crate::model::{InboxSignal, RunId};

/// Signals per read. A run that has consumed them reads again.
pub const INBOX_PAGE: u32 = 256;

/// The signals that wait for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// The run's `wakes`: how often something asked it to wake.
    pub wakes: i64,
    /// `true` if a cancel was requested. It is read together with `wakes`, because a cancel raises
    /// that number too.
    pub cancel_requested: bool,
    /// The signals, in their order.
    pub signals: Vec<InboxSignal>,
}

/// The part of a run by which the worker that holds it learns what others have asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunWakes {
    /// The run.
    pub id: RunId,
    /// The run's `wakes`: how often something asked it to wake.
    pub wakes: i64,
    /// `true` if a cancel was requested.
    pub cancel_requested: bool,
    /// `true` if the run is paused.
    pub paused: bool,
}
