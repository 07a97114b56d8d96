//! Finds changes by comparing each read with the one before. This module itself neither reads nor
//! waits.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use workflow_engine::model::{AttemptStatus, RunId, RunNow, RunStatus, RunSummary, StepAttempt, Timestamp};
use workflow_engine::store::HistoryPlace;

use super::Change;
use super::cursor::hash;

/// How many changes a reader may be behind before it has to read anew.
const MOST_KEPT: usize = 1_024;

/// The position of the first outcome of a run.
const FIRST_POSITION: i64 = 1;

/// A place in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangePlace {
    log: u64,
    number: u64,
}

/// The last changes, in their order.
#[derive(Debug)]
pub(super) struct ChangeLog {
    /// Distinguishes the log from logs of other processes, and from earlier logs of this process.
    id: u64,
    /// The number of the first change that is kept.
    begins_at: u64,
    changes: VecDeque<Change>,
}

impl ChangeLog {
    pub(super) fn new(id: u64) -> Self {
        Self { id, begins_at: 0, changes: VecDeque::new() }
    }

    /// Returns the place after the last change.
    pub(super) fn end(&self) -> ChangePlace {
        ChangePlace { log: self.id, number: self.begins_at + u64::try_from(self.changes.len()).unwrap_or(u64::MAX) }
    }

    pub(super) fn add(&mut self, changes: Vec<Change>) {
        self.changes.extend(changes);
        let excess = self.changes.len().saturating_sub(MOST_KEPT);
        self.changes.drain(..excess);
        self.begins_at += u64::try_from(excess).unwrap_or_default();
    }

    /// Forgets all changes, so that every earlier place is too old.
    pub(super) fn begin_anew(&mut self) {
        self.begins_at = self.end().number + 1;
        self.changes.clear();
    }

    /// Returns the changes after a place, the last one of each thing. A run that has entered and
    /// then changed has entered. `None`: some changes are not kept, or the place is of another log.
    pub(super) fn since(&self, place: &ChangePlace) -> Option<Vec<Change>> {
        if place.log != self.id || place.number > self.end().number {
            return None;
        }
        let skipped = usize::try_from(place.number.checked_sub(self.begins_at)?).ok()?;
        let mut last: HashMap<_, (usize, Change)> = HashMap::new();
        for (at, change) in self.changes.iter().enumerate().skip(skipped) {
            let thing = thing(change);
            let change = match (last.get(&thing), change) {
                (Some((_, Change::Entered { .. })), &Change::Changed { run, status }) => {
                    Change::Entered { run, status }
                }
                _ => change.clone(),
            };
            last.insert(thing, (at, change));
        }
        let mut last: Vec<_> = last.into_values().collect();
        last.sort_unstable_by_key(|(at, _)| *at);
        Some(last.into_iter().map(|(_, change)| change).collect())
    }
}

/// Returns what a change is about.
fn thing(change: &Change) -> Option<(RunId, Option<(&str, i64)>)> {
    match change {
        Change::Committed => None,
        Change::Entered { run, .. } | Change::Changed { run, .. } | Change::Left { run } => Some((*run, None)),
        Change::Step { run, step, attempt, .. } => Some((*run, Some((step, *attempt)))),
    }
}

/// The runs of a query, as they were last read: for each a number of its row.
#[derive(Debug, Default)]
pub(super) struct WatchedRuns(BTreeMap<RunId, u64>);

impl WatchedRuns {
    /// Takes what was read, and returns what is different.
    pub(super) fn take(&mut self, runs: &[RunSummary]) -> Vec<Change> {
        let read: BTreeMap<RunId, u64> = runs.iter().map(|run| (run.id, number_of(run))).collect();
        let known = std::mem::replace(&mut self.0, read);
        let mut changes: Vec<Change> =
            known.keys().filter(|run| !self.0.contains_key(run)).map(|run| Change::Left { run: *run }).collect();
        // The oldest first, so that the changes are in the order of the starts.
        changes.extend(runs.iter().rev().filter_map(|run| match known.get(&run.id) {
            None => Some(Change::Entered { run: run.id, status: run.status }),
            number if number != self.0.get(&run.id) => Some(Change::Changed { run: run.id, status: run.status }),
            Some(_) => None,
        }));
        changes
    }
}

/// Returns a number that differs if the row shows another state. It leaves out the lease of a
/// running run, which changes all the time.
fn number_of(run: &RunSummary) -> u64 {
    let mut run = run.clone();
    let worker = match &run.now {
        RunNow::Running { worker, .. } => *worker,
        _ => None,
    };
    run.now = RunNow::Waits;
    if run.status == RunStatus::Running {
        run.available_at = Timestamp::from_micros(0);
    }
    // This is plain data with text as keys, so it can always be written.
    hash(&serde_json::to_string(&(run, worker)).unwrap_or_default())
}

/// One run and its history, as they were last read.
#[derive(Debug)]
pub(super) struct WatchedRun {
    id: RunId,
    /// `None`: it was never read, or it was deleted.
    row: Option<Row>,
    /// The last outcome before which no outcome can appear any more. The changes before it were
    /// returned. A transaction of a step may commit after outcomes with later positions.
    settled: Option<HistoryPlace>,
    /// The attempts behind it: status, position and claim.
    attempts: BTreeMap<(String, i64), Attempt>,
}

type Attempt = (AttemptStatus, Option<i64>, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    number: u64,
    /// The attempt and the generation of the run, each of which has another history.
    of: (i64, i64),
}

impl WatchedRun {
    pub(super) fn new(id: RunId) -> Self {
        Self { id, row: None, settled: None, attempts: BTreeMap::new() }
    }

    /// Returns the place behind which the history of this run is to be read.
    pub(super) fn read_after(&self, run: &RunSummary) -> Option<HistoryPlace> {
        let same = self.row.is_some_and(|row| row.of == (run.attempt, run.generation));
        self.settled.clone().filter(|_| same)
    }

    /// Takes a run and its attempts behind [`read_after`](Self::read_after), in the order of the
    /// history, and returns what is different. `None`: the run has another history than before.
    pub(super) fn take(&mut self, run: Option<&RunSummary>, attempts: &[StepAttempt]) -> Option<Vec<Change>> {
        let Some(run) = run else {
            return Some(self.row.take().map(|_| Change::Left { run: self.id }).into_iter().collect());
        };
        let row = Row { number: number_of(run), of: (run.attempt, run.generation) };
        let is_other = self.row.is_some_and(|known| known.of != row.of);
        self.settled = self.read_after(run);
        let known = std::mem::take(&mut self.attempts);
        let mut changes = Vec::new();
        for it in attempts {
            let (place, state) = ((it.step_key.clone(), it.attempt), (it.status, it.position, it.epoch));
            if known.get(&place) != Some(&state) {
                changes.push(Change::Step {
                    run: self.id,
                    step: it.step_key.clone(),
                    attempt: it.attempt,
                    kind: it.kind,
                    status: it.status,
                    position: it.position,
                });
            }
            self.attempts.insert(place, state);
        }
        self.settle(attempts);
        // After the steps, so that an end comes last.
        if self.row.replace(row) != Some(row) {
            changes.push(Change::Changed { run: self.id, status: run.status });
        }
        (!is_other).then_some(changes)
    }

    /// Forgets the outcomes that follow each other without a gap.
    fn settle(&mut self, attempts: &[StepAttempt]) {
        let last = self.settled.as_ref().and_then(|place| place.position);
        let positions = last.map_or(FIRST_POSITION, |last| last + 1)..;
        for (it, _) in attempts.iter().zip(positions).take_while(|(it, next)| it.position == Some(*next)) {
            self.attempts.remove(&(it.step_key.clone(), it.attempt));
            self.settled = Some(HistoryPlace::of(it));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use workflow_engine::model::StepKind;

    use super::*;

    fn run(id: RunId, status: &str) -> RunSummary {
        serde_json::from_value(serde_json::json!({
            "id": id, "queue": "q", "workflow": "w", "version": "1", "status": status, "now": {"state": "waits"},
            "attempt": 1, "generation": 0, "crashes": 0, "depth": 0, "available_at": 5, "created_at": 1,
        }))
        .unwrap()
    }

    fn attempt(step: &str, position: Option<i64>) -> StepAttempt {
        StepAttempt {
            step_key: step.into(),
            attempt: 1,
            kind: StepKind::Step,
            status: if position.is_some() { AttemptStatus::Succeeded } else { AttemptStatus::Running },
            output: None,
            error: None,
            position,
            epoch: 1,
            started_at: Timestamp::from_micros(1),
            completed_at: None,
        }
    }

    fn steps(changes: Option<Vec<Change>>) -> Vec<String> {
        let step = |change| match change {
            Change::Step { step, .. } => Some(step),
            _ => None,
        };
        changes.unwrap().into_iter().filter_map(step).collect()
    }

    #[test]
    fn a_reader_gets_the_last_change_of_each_thing() {
        let mut log = ChangeLog::new(7);
        let begin = log.end();
        let [one, other] = [RunId::generate(), RunId::generate()];
        let changed = |run, status| Change::Changed { run, status };
        log.add(vec![
            changed(one, RunStatus::Running),
            changed(other, RunStatus::Running),
            changed(one, RunStatus::Failed),
        ]);
        let expected = vec![changed(other, RunStatus::Running), changed(one, RunStatus::Failed)];
        assert_eq!(log.since(&begin), Some(expected));
        assert_eq!(log.since(&log.end()), Some(Vec::new()));
    }

    /// Another reader had the run read twice, so both changes came before this reader asked.
    #[test]
    fn a_run_that_changed_after_it_entered_has_entered() {
        let mut log = ChangeLog::new(7);
        let begin = log.end();
        let run = RunId::generate();
        log.add(vec![Change::Entered { run, status: RunStatus::Pending }]);
        log.add(vec![Change::Changed { run, status: RunStatus::Running }]);
        assert_eq!(log.since(&begin), Some(vec![Change::Entered { run, status: RunStatus::Running }]));
        log.add(vec![Change::Left { run }]);
        assert_eq!(log.since(&begin), Some(vec![Change::Left { run }]));
    }

    #[test]
    fn a_place_that_is_too_old_or_of_another_log_is_refused() {
        let mut log = ChangeLog::new(7);
        let begin = log.end();
        let many = |log: &mut ChangeLog, count| (0..count).for_each(|_| log.add(vec![Change::Committed]));
        many(&mut log, MOST_KEPT);
        assert_eq!(log.since(&begin), Some(vec![Change::Committed]));
        many(&mut log, 1);
        assert_eq!(log.since(&begin), None);
        assert_eq!(ChangeLog::new(8).since(&ChangeLog::new(7).end()), None);
        assert_eq!(ChangeLog::new(7).since(&log.end()), None, "a place that this log has not reached");
        let end = log.end();
        log.begin_anew();
        assert_eq!(log.since(&end), None);
        assert_eq!(log.since(&log.end()), Some(Vec::new()));
    }

    #[test]
    fn runs_enter_change_and_leave() {
        let [old, new] = [RunId::generate(), RunId::generate()];
        let mut watched = WatchedRuns::default();
        watched.take(&[run(old, "pending")]);
        let changes = watched.take(&[run(new, "pending"), run(old, "running")]);
        let entered = Change::Entered { run: new, status: RunStatus::Pending };
        assert_eq!(changes, [Change::Changed { run: old, status: RunStatus::Running }, entered]);
        let mut renewed = run(old, "running");
        renewed.available_at = Timestamp::from_micros(9);
        assert_eq!(watched.take(&[run(new, "pending"), renewed]), [], "a lease was renewed");
        assert_eq!(watched.take(&[run(new, "pending")]), [Change::Left { run: old }]);
    }

    /// A run whose id is lower, because its transaction began earlier, is found all the same.
    #[test]
    fn a_start_that_commits_late_is_found() {
        let [late, early] = [RunId::generate(), RunId::generate()];
        let mut watched = WatchedRuns::default();
        watched.take(&[run(early, "pending")]);
        let changes = watched.take(&[run(early, "pending"), run(late, "pending")]);
        assert_eq!(changes, [Change::Entered { run: late, status: RunStatus::Pending }]);
    }

    #[test]
    fn an_outcome_that_commits_behind_a_later_one_is_found() {
        let id = RunId::generate();
        let (mut watched, row) = (WatchedRun::new(id), run(id, "running"));
        watched.take(Some(&row), &[]);
        assert_eq!(steps(watched.take(Some(&row), &[attempt("a", Some(1)), attempt("c", Some(3))])), ["a", "c"]);
        let place = watched.read_after(&row).unwrap();
        assert_eq!(place.position, Some(1), "the transaction of position 2 is under way");
        assert_eq!(steps(watched.take(Some(&row), &[attempt("b", Some(2)), attempt("c", Some(3))])), ["b"]);
        assert_eq!(watched.read_after(&row).unwrap().position, Some(3));
    }

    #[test]
    fn an_attempt_without_an_outcome_is_told_when_it_changes() {
        let id = RunId::generate();
        let (mut watched, row) = (WatchedRun::new(id), run(id, "running"));
        watched.take(Some(&row), &[]);
        assert_eq!(steps(watched.take(Some(&row), &[attempt("a", None)])), ["a"]);
        assert_eq!(steps(watched.take(Some(&row), &[attempt("a", None)])), [""; 0]);
        assert_eq!(steps(watched.take(Some(&row), &[attempt("a", Some(1))])), ["a"]);
        assert_eq!(watched.take(None, &[]), Some(vec![Change::Left { run: id }]));
        assert_eq!(watched.take(None, &[]), Some(Vec::new()));
    }

    #[test]
    fn another_history_is_read_anew() {
        let id = RunId::generate();
        let (mut watched, row) = (WatchedRun::new(id), run(id, "running"));
        watched.take(Some(&row), &[attempt("a", Some(1))]);
        let mut next = row.clone();
        next.generation = 1;
        assert_eq!(watched.read_after(&next), None);
        assert_eq!(watched.take(Some(&next), &[attempt("b", Some(1))]), None);
        assert_eq!(watched.read_after(&next).unwrap().step_key, "b");
    }
}
