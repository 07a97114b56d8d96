use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AttemptStatus, StepAttempt, StepKind, StoredError};

/// A step that a parked run waits for, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct AwaitedStep {
    /// The kind of the step.
    pub kind: StepKind,
    /// The key of the step.
    pub key: String,
    /// The number of the attempt that comes next. 1 for a wait.
    pub attempt: i64,
    /// The largest number of attempts. `None` for a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<i64>,
}

impl AwaitedStep {
    /// Returns the step of a row without an outcome, with its stored error. `None` if the run does
    /// not wait for it: a body that has no next attempt, or whose error is not understood.
    #[doc(hidden)]
    #[must_use]
    pub fn of_row(kind: StepKind, key: String, attempt: i64, error: Option<&str>) -> Option<Self> {
        let Some(error) = error else { return Some(Self { kind, key, attempt, of: None }) };
        let error: StoredError = serde_json::from_str(error).ok()?;
        error.next_attempt_at?;
        let of = error.attempts_left.map(|left| attempt + i64::from(left));
        Some(Self { kind, key, attempt: attempt + 1, of })
    }

    /// `true` if the row has no outcome and a parked run may wait for its step: a wait that has not
    /// ended, except for a sleep, or a failed attempt of a body.
    #[doc(hidden)]
    #[must_use]
    pub fn is_open(row: &StepAttempt) -> bool {
        let kinds: &[StepKind] = match row.status {
            AttemptStatus::Running => &[StepKind::Signal, StepKind::Approval, StepKind::Event, StepKind::Child],
            AttemptStatus::Failed => &[StepKind::Step, StepKind::Transaction, StepKind::Compensation],
            AttemptStatus::Succeeded => &[],
        };
        row.position.is_none() && kinds.contains(&row.kind)
    }
}

impl fmt::Display for AwaitedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_body = matches!(self.kind, StepKind::Step | StepKind::Transaction | StepKind::Compensation);
        match self.of {
            Some(of) => write!(f, "attempt {}/{of} of ", self.attempt)?,
            None if has_body => write!(f, "attempt {} of ", self.attempt)?,
            None => {}
        }
        write!(f, "{} {:?}", self.kind, self.key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model::{ErrorKind, Timestamp};

    #[test]
    fn a_failed_attempt_tells_the_next_one_and_the_last_one() {
        let error = StoredError::new(ErrorKind::Application, "no answer");
        let text = |error: &StoredError| serde_json::to_string(error).unwrap();
        let of_row = |error: &str| AwaitedStep::of_row(StepKind::Step, "charge".into(), 2, Some(error));
        let next = of_row(&text(&error.clone().followed(8, Timestamp::from_micros(7)))).unwrap();
        assert_eq!((next.attempt, next.of), (3, Some(10)));
        assert_eq!(next.to_string(), r#"attempt 3/10 of step "charge""#);
        assert_eq!(of_row(&text(&error)), None, "it was dropped");
        assert_eq!(of_row("{"), None);
        let wait = AwaitedStep::of_row(StepKind::Signal, "approve".into(), 1, None).unwrap();
        assert_eq!(wait.to_string(), r#"signal "approve""#);
    }
}
