use super::NewRun;

/// What is committed together with the row of an attempt, or not at all.
#[derive(Clone, Debug, Default)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// The signal with this number leaves the inbox of the run.
    Consume {
        /// Its number in the inbox.
        seq: i64,
    },
    /// A child of the run is started.
    Start(Box<NewRun>),
}
