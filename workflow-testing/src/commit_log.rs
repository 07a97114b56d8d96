//! Every commit of an env in its order, and the one at which the worker is to die.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use workflow_engine::model::Effect;
use workflow_engine::store::{AttemptWrite, Outcome, RunEnd, Write};
use workflow_sdk::{AttemptStatus, RunId, StepKind};

/// On which side of a commit a worker dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// Nothing of the commit is in the database.
    Before,
    /// All of it is, and nobody was told.
    After,
}

/// A place at which a worker can die.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Boundary {
    /// Which commit, from 1, in the order of the uninterrupted run.
    pub commit: usize,
    /// On which side of it.
    pub side: Side,
    /// What is committed there.
    pub what: String,
    /// The step whose row that is, if it is one.
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

/// A step whose outcome was recorded, and whose body began again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RanAgain {
    pub(super) step: String,
    pub(super) attempt: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) what: String,
    pub(super) step: Option<String>,
    /// Whether it changed anything.
    pub(super) counts: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommitLog {
    kept: Mutex<Kept>,
    died: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    commits: Vec<Commit>,
    armed: Option<(usize, Side)>,
    /// Where the worker died.
    struck: Option<Boundary>,
    dead: bool,
    recorded: HashSet<(RunId, String)>,
    ran_again: Vec<RanAgain>,
}

impl CommitLog {
    /// The worker dies at this commit (from 1).
    pub(super) fn armed(commit: usize, side: Side) -> Self {
        let kept = Kept { armed: Some((commit, side)), ..Kept::default() };
        Self { kept: Mutex::new(kept), died: Notify::new() }
    }

    /// Returns when the worker has died.
    pub(super) async fn died(&self) {
        self.died.notified().await;
    }

    pub(super) fn begin_life(&self) {
        self.kept().dead = false;
    }

    pub(super) fn commits(&self) -> Vec<Commit> {
        self.kept().commits.clone()
    }

    pub(super) fn struck(&self) -> Option<Boundary> {
        self.kept().struck.clone()
    }

    pub(super) fn ran_again(&self) -> Option<RanAgain> {
        self.kept().ran_again.first().cloned()
    }

    /// A commit begins: gives its number. Does not return where the worker dies before it.
    pub(super) async fn before(&self, writes: &[Write]) -> usize {
        let number = self.begin(writes);
        self.pass(number, Side::Before).await;
        number
    }

    /// It is done. Does not return where the worker dies after it.
    pub(super) async fn after(&self, number: usize, writes: &[Write], outcomes: &[Outcome]) {
        self.note(number, writes, outcomes);
        self.pass(number, Side::After).await;
    }

    /// The body of this step begins.
    pub(super) fn body_begins(&self, run: RunId, step: &str, attempt: u32) {
        let mut kept = self.kept();
        if kept.recorded.contains(&(run, step.to_owned())) {
            kept.ran_again.push(RanAgain { step: step.to_owned(), attempt });
        }
    }

    fn begin(&self, writes: &[Write]) -> usize {
        let mut kept = self.kept();
        let (what, step) = describe(writes);
        kept.commits.push(Commit { what, step, counts: false });
        kept.commits.len()
    }

    fn note(&self, number: usize, writes: &[Write], outcomes: &[Outcome]) {
        let mut kept = self.kept();
        let is_nothing = |outcome: &Outcome| match outcome {
            Outcome::Claimed(claimed) => claimed.runs.is_empty(),
            outcome => outcome.changed_nothing(),
        };
        let changed = || writes.iter().zip(outcomes).filter(|(_, outcome)| !is_nothing(outcome));
        let counts = changed().next().is_some();
        if let Some(commit) = kept.commits.get_mut(number - 1) {
            commit.counts = counts;
        }
        for (write, _) in changed() {
            match write {
                Write::Attempt(AttemptWrite { claim, row, .. }) if row.position.is_some() => {
                    kept.recorded.insert((claim.run_id, row.step_key.clone()));
                }
                Write::Retry(retry) => {
                    let again =
                        |(run, step): &(RunId, String)| *run == retry.claim.run_id && retry.again.contains(step);
                    kept.recorded.retain(|it| !again(it));
                }
                Write::Revive(revive) => {
                    let again = |(run, step): &(RunId, String)| *run == revive.run_id && revive.again.contains(step);
                    kept.recorded.retain(|it| !again(it));
                }
                Write::Continue(next) => kept.recorded.retain(|(run, _)| *run != next.claim.run_id),
                _ => {}
            }
        }
    }

    async fn pass(&self, number: usize, side: Side) {
        if self.strikes(number, side) {
            self.died.notify_one();
        }
        // Nothing is committed any more by a worker that is dead.
        if self.kept().dead {
            std::future::pending().await
        }
    }

    fn strikes(&self, number: usize, side: Side) -> bool {
        let mut kept = self.kept();
        if kept.struck.is_some() || kept.armed != Some((number, side)) {
            return false;
        }
        let Some(Commit { what, step, .. }) = kept.commits.get(number - 1).cloned() else { return false };
        kept.struck = Some(Boundary { commit: number, side, what, step });
        kept.dead = true;
        true
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is written, for people, and the first step that it is about.
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
        Write::Start(run) => format!("the start of a run of {:?}", run.lane.workflow),
        Write::Attempt(write) => describe_row(write),
        Write::Signal(signal) => format!("the signal {:?}", signal.name),
        Write::End(write) => match write.end {
            RunEnd::Succeeded(_) => "the end of the run".into(),
            RunEnd::Failed(_) => "the failure of the run".into(),
            RunEnd::Canceled => "the cancel of the run".into(),
        },
        Write::Park(_) => "the park of the run".into(),
        Write::Retry(_) => "the failure of the run, which is tried again,".into(),
        Write::Continue(_) => "the next generation of the run".into(),
        Write::Claim(_) => "a claim".into(),
        Write::Cancel(_) => "the request to cancel the run".into(),
        Write::Terminate(_) => "the termination of the run".into(),
        Write::Fork(_) => "a fork".into(),
        Write::Revive(_) => "the retry of the run".into(),
        Write::Pause(_) => "the pause of the run".into(),
        Write::Resume(_) => "the resumption of the run".into(),
        Write::ReleaseUnknown { .. } => "claims that are given back".into(),
        Write::Expire { .. } => "what has passed its deadline".into(),
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

/// A log that many hold.
pub(super) type SharedLog = Arc<CommitLog>;
