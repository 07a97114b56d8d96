//! Tells a run to end, by a cancel or by its deadline. An interruption is an outcome like any
//! other. It has a position, it is delivered after its commit, and a replay delivers it at an equal
//! place. The workflow's reaction to it therefore replays exactly.

use crate::model::{ErrorKind, StepAttempt, StoredError, Timestamp};

/// The key of the interruption's row. No call receives this key.
pub(super) const KEY: &str = "interruption";

/// The reason why a run was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The run was canceled.
    Canceled,
    /// The run's deadline has passed.
    Deadline,
}

impl Interruption {
    /// Returns the output of the interruption's row.
    pub(super) fn as_json(self) -> &'static str {
        match self {
            Self::Canceled => "\"canceled\"",
            Self::Deadline => "\"deadline\"",
        }
    }

    fn parse(json: &str) -> Self {
        if json == Self::Deadline.as_json() { Self::Deadline } else { Self::Canceled }
    }

    /// Returns the error with which the pending calls of the run end.
    #[must_use]
    pub fn error(self) -> StoredError {
        match self {
            Self::Canceled => StoredError::new(ErrorKind::Canceled, "the run was canceled"),
            Self::Deadline => StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline"),
        }
        .fatal()
    }
}

/// An interruption of this run, delivered or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The reason why the run was told to end.
    pub by: Interruption,
    /// The time of the interruption, from which the grace counts.
    pub at: Timestamp,
    /// Whether the interruption was delivered to the workflow.
    pub delivered: bool,
    position: i64,
    /// Whether no call could take the interruption when it was delivered. The next unshielded call
    /// then takes it.
    owed: bool,
}

impl Interrupted {
    /// Reads the row of an interruption.
    pub(super) fn recorded(row: &StepAttempt) -> Option<Self> {
        let by = Interruption::parse(row.output.as_deref().unwrap_or_default());
        Some(Self { by, at: row.started_at, delivered: false, position: row.position?, owed: false })
    }

    /// Returns the position of the interruption in the order of outcomes.
    pub(super) fn position(&self) -> i64 {
        self.position
    }
}

/// How far an interruption of the run has come.
#[derive(Debug)]
pub(super) struct InterruptionState {
    interrupted: Option<Interrupted>,
    /// Whether the history has the interruption.
    is_recorded: bool,
    /// Whether the workflow is being polled with the end of several calls at once. A call that one
    /// branch begins then may be dropped by the next branch.
    is_delivering: bool,
    /// Whether calls that become active are shielded from an interruption.
    is_shielding: bool,
}

impl InterruptionState {
    /// Creates the state of a run whose history has this interruption.
    pub(super) fn new(recorded: Option<Interrupted>) -> Self {
        Self { interrupted: recorded, is_recorded: recorded.is_some(), is_delivering: false, is_shielding: false }
    }

    /// Returns the interruption, if the run was told to end.
    pub(super) fn get(&self) -> Option<Interrupted> {
        self.interrupted
    }

    /// Sets the interruption of a run that was not told to end before.
    pub(super) fn set(&mut self, by: Interruption, at: Timestamp, position: i64) {
        self.interrupted = Some(Interrupted { by, at, delivered: false, position, owed: false });
    }

    /// Returns whether the interruption is next to be delivered, once it is committed. It is not
    /// while an earlier recorded outcome, at position `unasked`, waits for its call.
    pub(super) fn is_due(&self, unasked: impl FnOnce() -> Option<i64>) -> bool {
        self.interrupted.is_some_and(|interrupted| {
            let earlier = unasked().is_some_and(|position| position < interrupted.position);
            !interrupted.delivered && !earlier
        })
    }

    /// Returns whether the history has the interruption and the workflow has not reached it.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_recorded && self.interrupted.is_some_and(|interrupted| !interrupted.delivered)
    }

    /// Delivers the interruption. If no call takes it, it is owed to the next unshielded one.
    pub(super) fn deliver(&mut self, is_taken: bool) -> Option<Interrupted> {
        let interrupted = self.interrupted.as_mut()?;
        interrupted.delivered = true;
        interrupted.owed = !is_taken;
        self.is_delivering = true;
        Some(*interrupted)
    }

    /// Notes that the workflow was polled after a delivery.
    pub(super) fn end_delivery(&mut self) {
        self.is_delivering = false;
    }

    /// Returns whether the workflow is being polled with the interruption.
    pub(super) fn is_delivering(&self) -> bool {
        self.is_delivering
    }

    /// Sets whether calls that become active are shielded. Returns the previous value.
    pub(super) fn shield(&mut self, shielding: bool) -> bool {
        std::mem::replace(&mut self.is_shielding, shielding)
    }

    /// Returns whether calls that become active are shielded.
    pub(super) fn is_shielding(&self) -> bool {
        self.is_shielding
    }

    /// Returns the interruption for a call that becomes active after it, unless another call has
    /// taken it.
    pub(super) fn take_owed(&mut self) -> Option<Interruption> {
        let interrupted = self.interrupted.as_mut().filter(|it| it.owed && !self.is_shielding)?;
        interrupted.owed = false;
        Some(interrupted.by)
    }
}
