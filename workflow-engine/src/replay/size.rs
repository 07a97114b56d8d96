use crate::model::{AttemptStatus, StepAttempt, StepKind};

/// The size of a run's history: the amount that a replay reads. For a run that has continued as
/// new, the size of its present generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HistorySize {
    /// The number of ended attempts, sleeps, patches and items of streams. Rows that the end of the
    /// function leaves do not count: compensations and waits that were dropped.
    pub steps: u64,
    /// The number of bytes of outputs and errors. Items of streams do not count, because a replay
    /// does not read them.
    pub bytes: u64,
}

impl HistorySize {
    /// Counts a row if it is final. Items of streams are counted by their numbers. A run that fails
    /// near its limit must not reach the limit while it is undone.
    pub(super) fn add(&mut self, row: &StepAttempt) {
        let is_left_out = match row.kind {
            StepKind::Emitted | StepKind::Compensation => true,
            StepKind::Sleep | StepKind::Signal | StepKind::Approval | StepKind::Event => row.position.is_none(),
            _ => false,
        };
        if row.status == AttemptStatus::Running || is_left_out {
            return;
        }
        self.steps += 1;
        let output = row.output.as_ref().map_or(0, String::len);
        let error = row.error.as_ref().map_or(0, |error| error.message.len());
        self.bytes += (output + error) as u64;
    }
}
