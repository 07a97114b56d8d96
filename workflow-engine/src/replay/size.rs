use crate::model::{AttemptStatus, StepAttempt, StepKind};

/// How large a run's history is: what a replay reads and goes through. Of a run that continued as new, since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HistorySize {
    /// Attempts that have ended, sleeps, patches, items of streams.
    pub steps: u64,
    /// Bytes of their outputs and errors, but for items of streams: a replay does not read those.
    pub bytes: u64,
}

impl HistorySize {
    /// Counts a row, once it is final. Items of streams are counted by their numbers.
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
