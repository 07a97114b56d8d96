use std::fmt;
use std::panic::Location;

use crate::model::{ErrorKind, StepKind, StoredError};

/// The code asks for something else than the run's history holds: the code was changed, or it is not deterministic.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    recorded: String,
    current: String,
    location: Option<String>,
}

/// What an author can do about a divergence.
const WAY_OUT: &str = "deploy code that makes the recorded calls (the run waits for it), or terminate the run; \
     outside of steps a workflow may depend only on its input and on outcomes of ctx";

impl Divergence {
    /// A step of this kind is recorded under a key that the code now uses for another kind.
    pub(super) fn kind(key: &str, recorded: StepKind, current: StepKind, location: &'static Location<'static>) -> Self {
        Self {
            recorded: format!("{recorded} {key:?}"),
            current: format!("{current} {key:?}"),
            location: Some(location.to_string()),
        }
    }

    /// The recorded output is no value of the type that the code now expects.
    pub(super) fn output(key: &str, type_name: &str, reason: &str, location: &'static Location<'static>) -> Self {
        Self {
            recorded: format!("step {key:?} with an output that is no {type_name} ({reason})"),
            current: format!("step {key:?} with an output of type {type_name}"),
            location: Some(location.to_string()),
        }
    }

    /// The function ended without asking for a recorded outcome.
    pub(super) fn unasked(position: i64, key: &str, kind: StepKind) -> Self {
        Self {
            recorded: format!("{kind} {key:?} at position {position}"),
            current: "the workflow ended without it".into(),
            location: None,
        }
    }

    /// The code has only the way of a patch that the run did not take.
    pub(super) fn patch(name: &str, location: &'static Location<'static>) -> Self {
        Self {
            recorded: format!("steps that follow this place, without the patch {name:?}: the run is older than it"),
            current: format!("ctx.deprecate_patch({name:?}): the code has the new way alone; bring ctx.patched back"),
            location: Some(location.to_string()),
        }
    }

    /// As an error that can be stored.
    #[must_use]
    pub fn to_stored(&self) -> StoredError {
        StoredError::new(ErrorKind::Divergence, self.to_string())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the code does not fit the run's history")?;
        writeln!(f, "  recorded: {}", self.recorded)?;
        writeln!(f, "  current:  {}", self.current)?;
        if let Some(location) = &self.location {
            writeln!(f, "  called at: {location}")?;
        }
        write!(f, "  what to do: {WAY_OUT}")
    }
}
