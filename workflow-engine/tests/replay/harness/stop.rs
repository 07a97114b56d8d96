//! The reasons for which a drive stops.

use workflow_engine::replay::Divergence;
use workflow_sdk::{StoredError, Timestamp};

/// Why a drive cannot continue by itself.
#[derive(Debug)]
pub(crate) enum Stop {
    Ended(Result<String, StoredError>),
    Continued(String),
    Diverged(Divergence),
    Waits { timer: Option<Timestamp>, park_until: Option<Timestamp> },
}

impl Stop {
    pub(crate) fn value(self) -> String {
        match self {
            Self::Ended(result) => result.unwrap(),
            other => panic!("the run has no result: {other:?}"),
        }
    }

    pub(crate) fn error(self) -> StoredError {
        match self {
            Self::Ended(result) => result.unwrap_err(),
            other => panic!("the run has no error: {other:?}"),
        }
    }

    pub(crate) fn divergence(self) -> Divergence {
        match self {
            Self::Diverged(divergence) => divergence,
            other => panic!("the run has not diverged: {other:?}"),
        }
    }

    pub(crate) fn park_until(&self) -> Option<Timestamp> {
        match self {
            Self::Waits { park_until, .. } => *park_until,
            other => panic!("the run does not wait: {other:?}"),
        }
    }

    pub(crate) fn timer(&self) -> Option<Timestamp> {
        match self {
            Self::Waits { timer, .. } => *timer,
            other => panic!("the run does not wait: {other:?}"),
        }
    }
}
