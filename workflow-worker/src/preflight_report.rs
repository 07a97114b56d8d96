use std::fmt;
use std::process::ExitCode;

use workflow_sdk::{Divergence, RecordedCall, RunId, StoredError};

/// The result of [`Worker::preflight`](crate::Worker::preflight). Its `Display` form is a report
/// for people.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PreflightReport {
    /// How many runs continue under this code.
    pub fits: u64,
    /// Runs that would be parked, because their histories do not fit the code.
    pub diverged: Vec<Finding<Divergence>>,
    /// Runs that would fail for good: the workflow panics or does not accept their input.
    pub failing: Vec<Finding<StoredError>>,
    /// Runs whose histories this release cannot read.
    pub unreadable: Vec<Finding<StoredError>>,
    /// Runs that wait for something that is not a call of the context, each with the recorded
    /// outcomes that follow that wait.
    pub blocked: Vec<Finding<Vec<RecordedCall>>>,
    /// Workflows with unfinished runs that are not registered under this name and version.
    pub unregistered: Vec<Unregistered>,
    strict: bool,
}

/// A finding about one run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding<T> {
    /// The run.
    pub run_id: RunId,
    /// Its workflow.
    pub workflow: String,
    /// The version of its workflow.
    pub version: String,
    /// The finding.
    pub found: T,
}

/// Unfinished runs that were not judged, because their workflow is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unregistered {
    /// The workflow.
    pub workflow: String,
    /// Its version.
    pub version: String,
    /// How many runs.
    pub runs: u64,
}

impl PreflightReport {
    /// Makes warnings count too: [`blocked`](Self::blocked) and
    /// [`unregistered`](Self::unregistered) runs then also make the report unclean.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }

    /// Returns whether nothing speaks against a deployment: no run would diverge or fail, and every
    /// history can be read.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let warned = !(self.blocked.is_empty() && self.unregistered.is_empty());
        let refused = !(self.diverged.is_empty() && self.failing.is_empty() && self.unreadable.is_empty());
        !(refused || self.strict && warned)
    }

    /// Returns 0 if the report [is clean](Self::is_clean), otherwise 1. Return it from `main` in a
    /// CI job.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        if self.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn unregistered_runs(&self) -> u64 {
        self.unregistered.iter().map(|unregistered| unregistered.runs).sum()
    }

    /// The number of runs for each verdict. The words fit one run and several.
    fn counts(&self) -> [(u64, &'static str); 6] {
        let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        [
            (self.fits, "fit"),
            (length(self.diverged.len()), "would diverge"),
            (length(self.failing.len()), "would fail"),
            (length(self.unreadable.len()), "cannot be read"),
            (length(self.blocked.len()), "wait for something that is not a call of ctx"),
            (self.unregistered_runs(), "not judged, their workflow is not registered"),
        ]
    }
}

impl fmt::Display for PreflightReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let all: u64 = counts.iter().map(|(runs, _)| runs).sum();
        write!(f, "preflight of {all} unfinished {}: ", if all == 1 { "run" } else { "runs" })?;
        write!(f, "{}", if self.is_clean() { "clean" } else { "not clean" })?;
        for (runs, what) in counts.into_iter().filter(|(runs, _)| *runs > 0) {
            write!(f, "\n  {runs:>6} {what}")?;
        }
        write_alike(f, &self.diverged, Divergence::summary, |found| found.to_string())?;
        write_alike(f, &self.failing, StoredError::to_string, |error| format!("fails ({}): {error}", error.kind))?;
        write_alike(f, &self.unreadable, StoredError::to_string, StoredError::to_string)?;
        let waits = |unasked: &Vec<RecordedCall>| {
            format!("waits for something that is not a call of ctx; {} recorded outcomes come after it", unasked.len())
        };
        write_alike(f, &self.blocked, waits, waits)?;
        for Unregistered { workflow, version, runs } in &self.unregistered {
            write!(f, "\n\n{workflow:?} version {version:?} is not registered: {runs} not judged")?;
        }
        Ok(())
    }
}

/// Writes the first of several alike findings in full, and some ids of the others. One change of
/// the code often concerns every run of a workflow.
fn write_alike<T>(
    f: &mut fmt::Formatter<'_>,
    findings: &[Finding<T>],
    summary: impl Fn(&T) -> String,
    text: impl Fn(&T) -> String,
) -> fmt::Result {
    let mut kinds: Vec<(String, Vec<&Finding<T>>)> = Vec::new();
    for finding in findings {
        let kind = format!("{} {} {}", finding.workflow, finding.version, summary(&finding.found));
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, alike)) => alike.push(finding),
            None => kinds.push((kind, vec![finding])),
        }
    }
    for (_, alike) in kinds {
        let Some((Finding { run_id, workflow, version, found }, others)) = alike.split_first() else { continue };
        write!(f, "\n\nrun {run_id} ({workflow:?} version {version:?}): {}", text(found))?;
        for other in others.iter().take(MAX_ALIKE) {
            write!(f, "\n  alike:    run {}", other.run_id)?;
        }
        if others.len() > MAX_ALIKE {
            write!(f, "\n            and {} more", others.len() - MAX_ALIKE)?;
        }
    }
    Ok(())
}

/// The most ids of alike runs that are written.
const MAX_ALIKE: usize = 3;
