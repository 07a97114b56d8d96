use super::NewRun;

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
}
