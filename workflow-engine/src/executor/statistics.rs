//! Counts the runs of this process, until the counts are written. The source lines of steps are
//! written with them, so that no commit of a run carries one.
//!
//! Only what is committed is counted. Each write of the counts of a minute replaces the one before.
//! So a write that is applied twice changes nothing, and a process that is killed loses the counts
//! since its last write.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::model::{
    FailureGroup, FailureRow, Lane, RunId, RunStatistics, RunStatus, SourceLine, StatisticsRow, StatisticsSpan,
    StoredError, Timestamp,
};
use crate::store::{MOST_FAILURE_GROUPS, StatisticsWrite};

/// How long counts stay in memory before they are written.
pub(super) const WRITE_DELAY: Duration = Duration::from_secs(1);

/// The minute before the first count.
const NO_MINUTE: Timestamp = Timestamp::from_micros(0);

/// How many rows of earlier minutes are kept for a database that is away.
const MOST_EARLIER: usize = 4096;

/// The counts of one process.
#[derive(Debug)]
pub struct Statistics {
    /// Identifies the rows of this process. `None`: nothing is counted.
    process: Option<Uuid>,
    counted: Mutex<Counted>,
    /// Notified of the first count after a write.
    changed: Notify,
}

/// The counts, which may have to be written.
#[derive(Debug)]
struct Counted {
    /// The minute of the last count.
    minute: Timestamp,
    lanes: HashMap<Lane, LaneCounts>,
    /// Counts of earlier minutes that are not written.
    earlier: Vec<StatisticsRow>,
    /// Failures that are not written.
    failures: HashMap<FailureGroup, FailureRow>,
    /// Source lines that are not written, each step once.
    source_lines: Vec<SourceLine>,
    /// Whether there was ever something to write.
    is_used: bool,
    /// When the counts have to be written. `None`: all are written.
    due_at: Option<Instant>,
}

/// The counts of a lane in the present minute.
#[derive(Debug, Default)]
struct LaneCounts {
    counts: RunStatistics,
    changed: bool,
}

impl Statistics {
    /// Counts for a new process.
    pub(super) fn new() -> Self {
        Self::of(Some(Uuid::new_v4()))
    }

    /// Counts nothing.
    pub(super) fn off() -> Self {
        Self::of(None)
    }

    fn of(process: Option<Uuid>) -> Self {
        let counted = Counted {
            minute: NO_MINUTE,
            lanes: HashMap::new(),
            earlier: Vec::new(),
            failures: HashMap::new(),
            source_lines: Vec::new(),
            is_used: false,
            due_at: None,
        };
        Self { process, counted: Mutex::new(counted), changed: Notify::new() }
    }

    /// Counts a run that was started.
    pub fn started(&self, lane: &Lane) {
        self.count(lane, |counts| counts.started += 1);
    }

    /// Counts the first claim of a run, which has `waited` this long since its start.
    pub fn begun(&self, lane: &Lane, waited: Duration) {
        self.count(lane, |counts| {
            counts.begun += 1;
            counts.waited = counts.waited.saturating_add(micros(waited));
        });
    }

    /// Counts a failed attempt of a run or of a step that another attempt follows.
    pub fn retried(&self, lane: &Lane) {
        self.count(lane, |counts| counts.retries += 1);
    }

    /// Counts a run that its worker has ended. `worked` is the time since its first claim.
    pub fn ended(&self, lane: &Lane, status: RunStatus, worked: Duration) {
        self.count(lane, |counts| {
            match status {
                RunStatus::Succeeded => counts.succeeded += 1,
                RunStatus::Failed => counts.failed += 1,
                RunStatus::Canceled => counts.canceled += 1,
                RunStatus::Pending | RunStatus::Running | RunStatus::Parked => return,
            }
            counts.worked = counts.worked.saturating_add(micros(worked));
            counts.durations.note(worked);
        });
    }

    /// Counts the failure of a run. [`Statistics::ended`] counts its end.
    pub fn failed(&self, lane: &Lane, run: RunId, error: &StoredError) {
        let at = Timestamp::from(SystemTime::now());
        let group = FailureGroup::of(&lane.workflow, error);
        let row = FailureRow {
            group: group.clone(),
            count: 1,
            first_at: at,
            last_at: at,
            first_version: lane.version.clone(),
            last_run: run,
        };
        self.change(|counted| counted.add_failure(row));
    }

    /// Takes the lines at which a step is called, to be written with the next counts.
    pub fn source_line(&self, line: SourceLine) {
        self.change(|counted| counted.put_source_line(line));
    }

    fn count(&self, lane: &Lane, count: impl FnOnce(&mut RunStatistics)) {
        let Some(process) = self.process else { return };
        let minute = StatisticsSpan::Minute.begin(SystemTime::now().into());
        self.change(|counted| {
            counted.advance(minute, process);
            if let Some(entry) = counted.lanes.get_mut(lane) {
                count(&mut entry.counts);
                entry.changed = true;
            } else {
                let mut entry = LaneCounts { changed: true, ..LaneCounts::default() };
                count(&mut entry.counts);
                counted.lanes.insert(lane.clone(), entry);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Counted)) {
        if self.process.is_none() {
            return;
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counted);
        counted.is_used = true;
        if counted.due_at.is_none() {
            counted.due_at = Some(Instant::now() + WRITE_DELAY);
            drop(counted);
            self.changed.notify_one();
        }
    }

    /// Returns the counts that are not written, and marks them as written. `None` if there are
    /// none.
    pub(super) fn take(&self) -> Option<StatisticsWrite> {
        self.due_at()?;
        self.take_last()
    }

    /// Returns the counts that are not written, even if there are none, and marks them as written.
    /// `None` if nothing was ever counted, so that no write can be under way.
    pub(super) fn take_last(&self) -> Option<StatisticsWrite> {
        let process = self.process?;
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if !counted.is_used {
            return None;
        }
        counted.due_at = None;
        Some(counted.take(process))
    }

    /// Takes counts back that were not written.
    pub(super) fn put_back(&self, write: StatisticsWrite) {
        let StatisticsWrite::Count { rows, failures, source_lines } = write else { return };
        self.change(|counted| {
            for row in rows {
                counted.put_back(row);
            }
            failures.into_iter().for_each(|failure| counted.add_failure(failure));
            source_lines.into_iter().for_each(|line| counted.put_source_line(line));
        });
    }

    /// Returns `true` if the counts have to be written now.
    pub(super) fn is_due(&self) -> bool {
        self.due_at().is_some_and(|due_at| due_at <= Instant::now())
    }

    /// Returns once counts have to be written.
    ///
    /// # Cancel safety
    /// The next call waits for the same counts.
    pub(super) async fn due(&self) {
        loop {
            match self.due_at() {
                Some(due_at) => return tokio::time::sleep_until(due_at).await,
                None => self.changed.notified().await,
            }
        }
    }

    fn due_at(&self) -> Option<Instant> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).due_at
    }
}

impl Counted {
    /// Begins a minute, if it is a later one.
    fn advance(&mut self, minute: Timestamp, process: Uuid) {
        if minute <= self.minute {
            return;
        }
        let changed = self.lanes.drain().filter(|(_, entry)| entry.changed);
        let changed: Vec<_> = changed.map(|(lane, entry)| row(self.minute, process, lane, entry.counts)).collect();
        self.earlier.extend(changed);
        self.minute = minute;
    }

    fn take(&mut self, process: Uuid) -> StatisticsWrite {
        let mut rows = std::mem::take(&mut self.earlier);
        for (lane, entry) in self.lanes.iter_mut().filter(|(_, entry)| entry.changed) {
            entry.changed = false;
            rows.push(row(self.minute, process, lane.clone(), entry.counts.clone()));
        }
        rows.sort_unstable_by(|one, other| (one.begins_at, &one.lane).cmp(&(other.begins_at, &other.lane)));
        let mut failures: Vec<FailureRow> = self.failures.drain().map(|(_, row)| row).collect();
        failures.sort_unstable_by(|one, other| one.group.cmp(&other.group));
        let mut source_lines = std::mem::take(&mut self.source_lines);
        source_lines.sort_unstable();
        StatisticsWrite::Count { rows, failures, source_lines }
    }

    fn put_back(&mut self, row: StatisticsRow) {
        match self.lanes.get_mut(&row.lane) {
            Some(entry) if row.begins_at == self.minute => entry.changed = true,
            // Counts of the same minute that are there already are the later ones.
            _ if self.earlier.iter().any(|other| (other.begins_at, &other.lane) == (row.begins_at, &row.lane)) => {}
            _ if self.earlier.len() < MOST_EARLIER => self.earlier.push(row),
            _ => {}
        }
    }

    /// Keeps the longer text of two for one step. It is the later one, because the lines of a step
    /// only increase.
    fn put_source_line(&mut self, line: SourceLine) {
        match self.source_lines.iter_mut().find(|known| known.is_of_same_step(&line)) {
            Some(known) if known.lines.len() >= line.lines.len() => {}
            Some(known) => *known = line,
            None => self.source_lines.push(line),
        }
    }

    fn add_failure(&mut self, row: FailureRow) {
        if let Some(known) = self.failures.get_mut(&row.group) {
            known.add(&row);
        } else if self.failures.len() < MOST_FAILURE_GROUPS as usize {
            self.failures.insert(row.group.clone(), row);
        }
    }
}

fn row(begins_at: Timestamp, process: Uuid, lane: Lane, counts: RunStatistics) -> StatisticsRow {
    StatisticsRow { span: StatisticsSpan::Minute, begins_at, process, lane, counts }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(write: Option<StatisticsWrite>) -> Option<usize> {
        match write? {
            StatisticsWrite::Count { rows, .. } => Some(rows.len()),
            StatisticsWrite::Fold { .. } => None,
        }
    }

    #[test]
    fn the_last_write_follows_one_that_is_under_way() {
        let lane = Lane { queue: "default".into(), workflow: "greet".into(), version: "1".into() };
        let statistics = Statistics::new();
        assert_eq!(rows(statistics.take_last()), None, "a process that counts nothing writes nothing");
        statistics.started(&lane);
        assert_eq!(rows(statistics.take()), Some(1));
        assert_eq!(rows(statistics.take()), None);
        assert_eq!(rows(statistics.take_last()), Some(0), "the counts that were taken may not be committed yet");
        statistics.started(&lane);
        assert_eq!(rows(statistics.take_last()), Some(1));
        assert_eq!(rows(Statistics::off().take_last()), None);
    }

    fn line(step: &str, lines: &str) -> SourceLine {
        SourceLine { workflow: "greet".into(), version: "1".into(), step: step.into(), lines: lines.into() }
    }

    fn lines(write: Option<StatisticsWrite>) -> Vec<String> {
        match write {
            Some(StatisticsWrite::Count { source_lines, .. }) => source_lines.into_iter().map(|it| it.lines).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn the_last_source_line_of_a_step_is_written_once() {
        let statistics = Statistics::new();
        for (step, at) in [("mail", "a.rs:1"), ("charge", "a.rs:2"), ("mail", "a.rs:1, a.rs:3")] {
            statistics.source_line(line(step, at));
        }
        let taken = statistics.take();
        assert_eq!(lines(taken.clone()), ["a.rs:2", "a.rs:1, a.rs:3"], "in the order of the steps");
        assert!(statistics.take().is_none());
        // The write fails, and one of its steps was called at another line meanwhile.
        statistics.source_line(line("charge", "a.rs:2, a.rs:4"));
        statistics.put_back(taken.unwrap());
        assert_eq!(lines(statistics.take()), ["a.rs:2, a.rs:4", "a.rs:1, a.rs:3"]);
        assert!(statistics.take_last().is_some(), "what was taken may not be committed yet");
    }
}
