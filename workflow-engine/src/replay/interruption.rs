//! Tells a run to end, by a cancel or by its deadline. An interruption is an outcome like any
//! other. It has a position, it is delivered after its commit, and a replay delivers it at an equal
//! place. The workflow's reaction to it therefore replays exactly.

use crate::model::{AttemptStatus, Effect, ErrorKind, StepAttempt, StepKind, StoredError, Timestamp};

use super::call::Phase;
use super::records::{Receiver, Sent};
use super::{CallId, Delivered, Machine, OutboxRow};

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
    fn as_json(self) -> &'static str {
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
    pub(super) position: i64,
    /// Whether no call could take the interruption when it was delivered. The next unshielded call
    /// then takes it.
    pub(super) owed: bool,
}

impl Interrupted {
    pub(super) fn recorded(row: &StepAttempt) -> Option<Self> {
        Some(Self {
            by: Interruption::parse(row.output.as_deref().unwrap_or_default()),
            at: row.started_at,
            delivered: false,
            position: row.position?,
            owed: false,
        })
    }
}

impl Machine {
    /// Tells the run to end. Only the first interruption counts.
    pub fn interrupt(&mut self, by: Interruption, now: Timestamp) {
        if self.interrupted.is_some() {
            return;
        }
        let at = self.tick(now);
        let position = self.take_position(Receiver::Run);
        let row = StepAttempt {
            step_key: KEY.into(),
            attempt: 1,
            kind: StepKind::Interruption,
            status: AttemptStatus::Succeeded,
            position: Some(position),
            output: Some(by.as_json().into()),
            error: None,
            epoch: self.epoch,
            started_at: at,
            completed_at: Some(at),
        };
        self.outbox.push(OutboxRow { row, effect: Effect::None, sent: Sent::Outcome(position, Receiver::Run) });
        self.interrupted = Some(Interrupted { by, at, delivered: false, position, owed: false });
    }

    /// Returns what told the run to end, if anything has.
    #[must_use]
    pub fn interrupted(&self) -> Option<Interrupted> {
        self.interrupted
    }

    /// Sets whether calls that are polled for the first time from now on are shielded. Returns the
    /// previous value.
    pub fn shield(&mut self, shielding: bool) -> bool {
        std::mem::replace(&mut self.shielding, shielding)
    }

    /// Returns whether the interruption is next to be delivered, once it is committed. It is not
    /// while an earlier recorded outcome waits for its call: a step that was added to the code may
    /// have to run first.
    pub(super) fn interruption_is_due(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| {
            let earlier = self.history.unasked().next().is_some_and(|(position, ..)| position < interrupted.position);
            !interrupted.delivered && !earlier
        })
    }

    /// Ends every active call that is not shielded. Returns these calls in the order of calls.
    pub(super) fn deliver_interruption(&mut self) -> Vec<CallId> {
        let Some(interrupted) = &mut self.interrupted else { return Vec::new() };
        let pending = |(_, call): &(usize, &super::call::Call)| {
            !call.shielded && !matches!(call.phase, Phase::Called | Phase::Ready(_) | Phase::Over)
        };
        let ids: Vec<_> = self.calls.iter().enumerate().filter(pending).map(|(index, _)| CallId(index)).collect();
        interrupted.delivered = true;
        self.interrupting = true;
        interrupted.owed = ids.is_empty();
        let (by, at) = (interrupted.by, interrupted.at);
        self.now = self.now.max(at);
        for id in &ids {
            let error = by.error().of_step(&self.calls[id.0].key);
            self.leave_phase(*id, Phase::Ready(Delivered::Failed(error)));
        }
        ids
    }

    /// Returns the interruption for a call that is first polled after it, unless another call has
    /// taken it.
    pub(super) fn take_owed(&mut self, id: CallId) -> Option<StoredError> {
        let interrupted = self.interrupted.as_mut().filter(|it| it.owed && !self.shielding)?;
        interrupted.owed = false;
        Some(interrupted.by.error().of_step(&self.calls[id.0].key))
    }

    /// Returns whether a body may not begin because its call is about to be interrupted.
    pub(super) fn awaits_interruption(&self, id: CallId) -> bool {
        !self.calls[id.0].shielded && self.interruption_is_due()
    }
}
