use crate::model::{AttemptStatus, StepAttempt, StepKind};

/// The size of a run's history: the amount that a replay reads. For a run that has continued as
/// new, the size of its present generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HistorySize {
    /// The number of ended attempts, sleeps, patches and items of streams.
    pub steps: u64,
    /// The number of bytes of outputs and errors. Items of streams do not count, because a replay
    /// does not read them.
    pub bytes: u64,
}

impl HistorySize {
    /// Counts a row if it is final. Items of streams are counted by their numbers.
    pub(super) fn add(&mut self, row: &StepAttempt) {
        if row.status == AttemptStatus::Running || row.kind == StepKind::Emitted {
            return;
        }
        self.steps += 1;
        let output = row.output.as_ref().map_or(0, String::len);
        let error = row.error.as_ref().map_or(0, |error| error.message.len());
        self.bytes += (output + error) as u64;
    }
}
