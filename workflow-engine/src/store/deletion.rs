//! Deletions of ended runs: what decides about one, and what became of it.

use crate::model::{RunId, RunStatus, Timestamp};

/// Deletes an ended run with everything that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteWrite {
    /// The run.
    pub run_id: RunId,
    /// Deletes the run only if it ended before this time. `None`: whenever it ended.
    pub ended_before: Option<Timestamp>,
}

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteOutcome {
    /// The run is gone.
    Deleted(DeletedRun),
    /// The run has not ended and has this status. Nothing was changed.
    NotEnded(RunStatus),
    /// This run has not ended and has not received the result of the run, its child, yet. Nothing
    /// was changed.
    Awaited {
        /// The parent.
        parent: RunId,
    },
    /// The run ended later than the write asks for. Nothing was changed.
    EndedLater,
    /// No run has this id. An earlier commit of the write, whose reply was lost, may have deleted
    /// the run.
    Unknown,
}

impl DeleteOutcome {
    /// `true` if neither this commit of the deletion nor an earlier one has deleted the run.
    #[must_use]
    pub const fn changed_nothing(self) -> bool {
        matches!(self, Self::NotEnded(_) | Self::Awaited { .. } | Self::EndedLater)
    }
}

/// The rows that were deleted with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedRun {
    /// The rows of its history: attempts of steps, patches, published values and items of streams.
    pub attempts: u64,
    /// The signals in its inbox, consumed ones included.
    pub signals: u64,
}

impl DeletedRun {
    /// Returns these numbers of rows.
    #[must_use]
    pub const fn new(attempts: u64, signals: u64) -> Self {
        Self { attempts, signals }
    }
}

/// A run that a batch is to delete, as far as it decides about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRun {
    /// The run's status.
    pub status: RunStatus,
    /// When it ended; `None` if it has not.
    pub completed_at: Option<Timestamp>,
    /// Its parent, if that has not ended and the step that started the run has no outcome.
    pub awaited_by: Option<RunId>,
}

impl DeleteWrite {
    /// Returns why the run must stay; `None` if it is to be deleted. `found` is `None` if there is
    /// no such run.
    #[must_use]
    pub fn refusal(&self, found: Option<FoundRun>) -> Option<DeleteOutcome> {
        let Some(FoundRun { status, completed_at, awaited_by }) = found else { return Some(DeleteOutcome::Unknown) };
        if !status.is_terminal() {
            return Some(DeleteOutcome::NotEnded(status));
        }
        if let Some(parent) = awaited_by {
            return Some(DeleteOutcome::Awaited { parent });
        }
        let is_late = |before| completed_at.is_none_or(|ended| ended >= before);
        self.ended_before.filter(|before| is_late(*before)).map(|_| DeleteOutcome::EndedLater)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ended_runs_that_no_parent_awaits_are_deleted() {
        let at = Timestamp::from_micros;
        let run_id = RunId::generate();
        let ended = FoundRun { status: RunStatus::Failed, completed_at: Some(at(5)), awaited_by: None };
        let write = |before: Option<i64>| DeleteWrite { run_id, ended_before: before.map(at) };
        assert_eq!(write(None).refusal(None), Some(DeleteOutcome::Unknown));
        assert_eq!(write(None).refusal(Some(ended)), None);
        assert_eq!(write(Some(6)).refusal(Some(ended)), None);
        assert_eq!(write(Some(5)).refusal(Some(ended)), Some(DeleteOutcome::EndedLater));
        let unknown_end = FoundRun { completed_at: None, ..ended };
        assert_eq!(write(Some(6)).refusal(Some(unknown_end)), Some(DeleteOutcome::EndedLater));
        for status in [RunStatus::Pending, RunStatus::Running, RunStatus::Parked] {
            let open = FoundRun { status, ..unknown_end };
            assert_eq!(write(None).refusal(Some(open)), Some(DeleteOutcome::NotEnded(status)));
        }
        let parent = RunId::generate();
        let awaited = FoundRun { awaited_by: Some(parent), ..ended };
        assert_eq!(write(Some(6)).refusal(Some(awaited)), Some(DeleteOutcome::Awaited { parent }));
    }
}
