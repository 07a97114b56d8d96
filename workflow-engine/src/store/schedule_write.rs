use crate::model::{NewRun, StoredSchedule, Timestamp};

/// Changes the row of a schedule if it is still as the writer has seen it, and starts runs in the
/// same commit: either both happen or nothing does.
#[derive(Clone, Debug)]
pub struct ScheduleWrite {
    /// The name of the schedule.
    pub name: String,
    /// The revision that the writer has seen. `None`: there was no such schedule.
    pub seen: Option<i64>,
    /// The new row. `None`: the schedule is deleted.
    pub next: Option<StoredSchedule>,
    /// The runs of the occurrences that are due. A run whose key exists is left out. A write that
    /// creates the schedule starts none.
    pub starts: Vec<NewRun>,
}

/// The schedules that a worker has to look at now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedules {
    /// The time now.
    pub now: Timestamp,
    /// The schedules that are due, the longest due first.
    pub due: Vec<StoredSchedule>,
    /// When the next one is due.
    pub next_at: Option<Timestamp>,
}

impl DueSchedules {
    /// Returns them from rows that are due or come next.
    #[must_use]
    pub fn of(now: Timestamp, rows: Vec<StoredSchedule>) -> Self {
        let (due, later): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.available_at <= now);
        let next_at = later.iter().map(|row| row.available_at).min();
        Self { now, due, next_at: next_at.filter(|at| *at < Timestamp::FAR_FUTURE) }
    }
}
