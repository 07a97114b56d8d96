use crate::model::InboxSignal;

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
