//! Replays the unfinished runs of the database under the code of this program.

use serde::Serialize;
use workflow_sdk::{RecordedCall, RunId};
use workflow_worker::{Finding, PreflightReport, WorkerError};

use crate::output::Output;
use crate::serving::Served;
use crate::{Exit, Failure};

/// How the unfinished runs fit the code.
#[derive(Debug, Serialize)]
struct Report {
    clean: bool,
    fits: u64,
    diverged: Vec<Found>,
    failing: Vec<Found>,
    unreadable: Vec<Found>,
    blocked: Vec<Found>,
    unregistered: Vec<Unregistered>,
}

/// A run that does not simply continue, and why.
#[derive(Debug, Serialize)]
struct Found {
    run: RunId,
    workflow: String,
    version: String,
    detail: String,
}

/// Runs whose workflow this program does not have.
#[derive(Debug, Serialize)]
struct Unregistered {
    workflow: String,
    version: String,
    runs: u64,
}

/// Replays the unfinished runs under this code and prints what would happen to them.
pub(crate) async fn preflight(worker: Box<dyn Served>, strict: bool, output: &Output) -> Result<Exit, Failure> {
    let failed = |error: WorkerError| Failure::new(Exit::Error, format!("the preflight failed: {error}"));
    let judged = worker.preflight().await.map_err(failed)?;
    let judged = if strict { judged.strict() } else { judged };
    let report = Report::of(&judged);
    output.one(&report, || report.ids(), |_| judged.to_string().trim_end().to_owned())?;
    Ok(if report.clean { Exit::Ok } else { Exit::Error })
}

impl Report {
    fn of(judged: &PreflightReport) -> Self {
        let waits = |unasked: &Vec<RecordedCall>| {
            format!("waits for something that is not a call of ctx; recorded outcomes after it: {}", unasked.len())
        };
        let unregistered = judged.unregistered.iter().map(|found| Unregistered {
            workflow: found.workflow.clone(),
            version: found.version.clone(),
            runs: found.runs,
        });
        Self {
            clean: judged.is_clean(),
            fits: judged.fits,
            diverged: found(&judged.diverged, ToString::to_string),
            failing: found(&judged.failing, ToString::to_string),
            unreadable: found(&judged.unreadable, ToString::to_string),
            blocked: found(&judged.blocked, waits),
            unregistered: unregistered.collect(),
        }
    }

    /// Returns the ids of the runs that speak against a deployment, one per line.
    fn ids(&self) -> String {
        let refused = [&self.diverged, &self.failing, &self.unreadable].into_iter().flatten();
        refused.map(|found| found.run.to_string()).collect::<Vec<_>>().join("\n")
    }
}

fn found<T>(findings: &[Finding<T>], detail: impl Fn(&T) -> String) -> Vec<Found> {
    let found = |finding: &Finding<T>| Found {
        run: finding.run_id,
        workflow: finding.workflow.clone(),
        version: finding.version.clone(),
        detail: detail(&finding.found),
    };
    findings.iter().map(found).collect()
}
