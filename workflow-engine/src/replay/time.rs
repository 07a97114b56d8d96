use crate::model::Timestamp;

/// The times of a run, which never go back, even if the clock does.
#[derive(Debug)]
pub(super) struct RunTime {
    /// The time that the workflow sees: that of the last delivered outcome.
    now: Timestamp,
    /// The latest time of any record.
    latest: Timestamp,
}

impl RunTime {
    /// Creates the times of a run that was first claimed at `started_at`, and whose history ends at
    /// `latest`.
    pub(super) fn new(started_at: Timestamp, latest: Option<Timestamp>) -> Self {
        Self { now: started_at, latest: latest.unwrap_or(started_at).max(started_at) }
    }

    /// Returns the time that the workflow sees.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the latest time of any record.
    pub(super) fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Returns the time of a new record, where the clock says `now`.
    pub(super) fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Moves the time that the workflow sees to that of a delivered outcome.
    pub(super) fn deliver(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
    }
}
