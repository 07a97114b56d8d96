//! The commits of an env in their order, and the one at which the worker is to die.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use workflow_engine::model::Effect;
use workflow_engine::store::{AttemptWrite, Outcome, RunEnd, Write};
use workflow_sdk::{AttemptStatus, RunId, StepKind};

/// The side of a commit on which a worker dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// Before the commit: nothing of it is in the database.
    Before,
    /// After the commit: all of it is in the database, and the worker does not know that.
    After,
}

/// A point at which a worker can die.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Boundary {
    /// The number of the commit, from 1, in the order of the run without a crash.
    pub commit: usize,
    /// The side of the commit.
    pub side: Side,
    /// A description of the commit.
    pub what: String,
    /// The key of the step whose record is committed, if it is the commit of a record.
    pub step: Option<String>,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side} the commit of {} (commit {})", self.what, self.commit)
    }
}

/// A step whose body began again although its outcome was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RanAgain {
    pub(super) step: String,
    pub(super) attempt: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) what: String,
    pub(super) step: Option<String>,
    /// Whether the commit changed anything.
    pub(super) has_changes: bool,
}

/// The commits of an env.
#[derive(Debug, Default)]
pub(super) struct CommitLog {
    entries: Mutex<Entries>,
    died: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    commits: Vec<Commit>,
    /// The commit at which the worker is to die.
    armed: Option<(usize, Side)>,
    /// Where the worker died.
    died_at: Option<Boundary>,
    is_dead: bool,
    /// The steps whose outcomes are recorded.
    recorded: HashSet<(RunId, String)>,
    ran_again: Vec<RanAgain>,
}

impl CommitLog {
    /// Creates a log whose worker dies at this commit (from 1).
    pub(super) fn armed(commit: usize, side: Side) -> Self {
        let entries = Entries { armed: Some((commit, side)), ..Entries::default() };
        Self { entries: Mutex::new(entries), died: Notify::new() }
    }

    /// Returns when the worker has died.
    pub(super) async fn died(&self) {
        self.died.notified().await;
    }

    pub(super) fn begin_life(&self) {
        self.entries().is_dead = false;
    }

    pub(super) fn commits(&self) -> Vec<Commit> {
        self.entries().commits.clone()
    }

    pub(super) fn died_at(&self) -> Option<Boundary> {
        self.entries().died_at.clone()
    }

    pub(super) fn ran_again(&self) -> Option<RanAgain> {
        self.entries().ran_again.first().cloned()
    }

    /// Takes note of a commit that begins, and returns its number. Never returns if the worker dies
    /// before the commit.
    pub(super) async fn before(&self, writes: &[Write]) -> usize {
        let number = self.begin(writes);
        self.cross(number, Side::Before).await;
        number
    }

    /// Takes note of the outcomes of a commit. Never returns if the worker dies after the commit.
    pub(super) async fn after(&self, number: usize, writes: &[Write], outcomes: &[Outcome]) {
        self.note(number, writes, outcomes);
        self.cross(number, Side::After).await;
    }

    /// Takes note that the body of this step begins.
    pub(super) fn body_begins(&self, run: RunId, step: &str, attempt: u32) {
        let mut entries = self.entries();
        if entries.recorded.contains(&(run, step.to_owned())) {
            entries.ran_again.push(RanAgain { step: step.to_owned(), attempt });
        }
    }

    fn begin(&self, writes: &[Write]) -> usize {
        let mut entries = self.entries();
        let (what, step) = describe(writes);
        entries.commits.push(Commit { what, step, has_changes: false });
        entries.commits.len()
    }

    fn note(&self, number: usize, writes: &[Write], outcomes: &[Outcome]) {
        let mut entries = self.entries();
        let is_nothing = |outcome: &Outcome| match outcome {
            Outcome::Claimed(claimed) => claimed.runs.is_empty(),
            outcome => outcome.changed_nothing(),
        };
        let changed = || writes.iter().zip(outcomes).filter(|(_, outcome)| !is_nothing(outcome));
        let has_changes = changed().next().is_some();
        if let Some(commit) = entries.commits.get_mut(number - 1) {
            commit.has_changes = has_changes;
        }
        for (write, _) in changed() {
            match write {
                Write::Attempt(AttemptWrite { claim, row, .. }) if row.position.is_some() => {
                    entries.recorded.insert((claim.run_id, row.step_key.clone()));
                }
                Write::Retry(retry) => {
                    let again =
                        |(run, step): &(RunId, String)| *run == retry.claim.run_id && retry.again.contains(step);
                    entries.recorded.retain(|it| !again(it));
                }
                Write::Revive(revive) => {
                    let again = |(run, step): &(RunId, String)| *run == revive.run_id && revive.again.contains(step);
                    entries.recorded.retain(|it| !again(it));
                }
                Write::Continue(next) => entries.recorded.retain(|(run, _)| *run != next.claim.run_id),
                _ => {}
            }
        }
    }

    /// Lets the worker cross a side of a commit, or die there.
    async fn cross(&self, number: usize, side: Side) {
        if self.dies_at(number, side) {
            self.died.notify_one();
        }
        // A dead worker commits nothing.
        if self.entries().is_dead {
            std::future::pending().await
        }
    }

    /// Returns whether the worker dies at this side of the commit, and takes note of it.
    fn dies_at(&self, number: usize, side: Side) -> bool {
        let mut entries = self.entries();
        if entries.died_at.is_some() || entries.armed != Some((number, side)) {
            return false;
        }
        let Some(Commit { what, step, .. }) = entries.commits.get(number - 1).cloned() else { return false };
        entries.died_at = Some(Boundary { commit: number, side, what, step });
        entries.is_dead = true;
        true
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a description of the writes for people, and the key of the first step among them.
fn describe(writes: &[Write]) -> (String, Option<String>) {
    let parts: Vec<String> = writes.iter().map(describe_one).collect();
    let step = writes.iter().find_map(|write| match write {
        Write::Attempt(attempt) => Some(attempt.row.step_key.clone()),
        _ => None,
    });
    (parts.join(" and "), step)
}

fn describe_one(write: &Write) -> String {
    match write {
        Write::Schedule(write) => format!("a change of the schedule {:?}", write.name),
        Write::Start(run) => format!("the start of a run of {:?}", run.lane.workflow),
        Write::Attempt(write) => describe_row(write),
        Write::Signal(signal) => format!("the signal {:?}", signal.name),
        Write::Emit(emission) => format!("the event {:?}", emission.event.name),
        Write::End(write) => match write.end {
            RunEnd::Succeeded(_) => "the end of the run".into(),
            RunEnd::Failed(_) => "the failure of the run".into(),
            RunEnd::Canceled => "the cancel of the run".into(),
        },
        Write::Park(_) => "the park of the run".into(),
        Write::Retry(_) => "the failure of the run, which is tried again,".into(),
        Write::Continue(_) => "the next generation of the run".into(),
        Write::Crashes(_) => "the crashes of the run".into(),
        Write::Claim(_) => "a claim".into(),
        Write::Queue(_) => "the change of a queue".into(),
        Write::Limit(_) => "the change of a limit".into(),
        Write::CallSeats(_) => "the call of a seat".into(),
        Write::Cancel(_) => "the request to cancel the run".into(),
        Write::Terminate(_) => "the termination of the run".into(),
        Write::Fork(_) => "a fork".into(),
        Write::Revive(_) => "the retry of the run".into(),
        Write::Pause(_) => "the pause of the run".into(),
        Write::Resume(_) => "the resumption of the run".into(),
        Write::Place(_) => "the move of the run".into(),
        Write::ReleaseUnknown { .. } => "the release of claims".into(),
        Write::Delete(_) => "the deletion of a run".into(),
        Write::Expire { .. } => "the end of runs past their deadline".into(),
        Write::Statistics(_) => "statistics".into(),
        Write::Bulk(_) => "a change of a bulk operation".into(),
        Write::Audited(audited) => describe_one(&audited.write),
    }
}

fn describe_row(AttemptWrite { row, effect, .. }: &AttemptWrite) -> String {
    let key = &row.step_key;
    if row.kind == StepKind::Interruption {
        return "the interruption of the run".into();
    }
    let what = match (row.status, row.position) {
        (AttemptStatus::Running, _) => "the beginning",
        (AttemptStatus::Failed, None) => "a failed attempt",
        (_, _) => "the outcome",
    };
    let child = if matches!(effect, Effect::Start(_)) { ", with the start of a child" } else { "" };
    format!("{what} of {} {key:?}{child}", row.kind)
}

/// A log that several parts of an env share.
pub(super) type SharedLog = Arc<CommitLog>;
