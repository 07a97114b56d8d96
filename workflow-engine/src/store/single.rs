//! Runs with a single key, as stores see them.

use crate::model::{RunId, SingleKey};

/// A run and the single key that it has or is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleRun<'w> {
    /// The run.
    pub run_id: RunId,
    /// The name of its workflow.
    pub workflow: &'w str,
    /// The key.
    pub key: &'w SingleKey,
}

/// The runs that are found for a [`SingleRun`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundSingle {
    /// `true` if the run itself exists.
    pub exists: bool,
    /// The run that has the key.
    pub holder: Option<RunId>,
}
