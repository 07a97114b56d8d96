//! Replays one run of the database under the code of this program.

use serde::Serialize;
use workflow_sdk::{Client, Misfit, Replayed, RunId};
use workflow_worker::ReplayRunError;

use crate::output::Output;
use crate::selection::find;
use crate::serving::Served;
use crate::{Exit, Failure};

/// How a run fits the code.
#[derive(Debug, PartialEq, Serialize)]
struct Verdict {
    run: RunId,
    fits: bool,
    /// The end of the run under this code, or why there is none.
    outcome: &'static str,
    detail: String,
}

/// Replays the run, and prints whether it fits. Changes nothing.
pub(crate) async fn replay(
    worker: Box<dyn Served>,
    client: &Client,
    run: &str,
    output: &Output,
) -> Result<Exit, Failure> {
    let run = find(client, run).await?;
    let verdict = judge(run, worker.replay(run).await)?;
    let text = |verdict: &Verdict| match verdict.fits {
        true => format!("run {run} fits this code: {}", verdict.detail),
        false => format!("run {run} does not fit this code: {}", verdict.detail),
    };
    output.one(&verdict, || run.to_string(), |_| text(&verdict))?;
    Ok(if verdict.fits { Exit::Ok } else { Exit::Error })
}

fn judge(run: RunId, replayed: Result<Replayed, ReplayRunError>) -> Result<Verdict, Failure> {
    let (fits, outcome, detail) = match replayed {
        Ok(Replayed::Ended(Ok(_))) => (true, "succeeds", "it ends with an output".to_owned()),
        Ok(Replayed::Ended(Err(error))) => (true, "fails", format!("it ends with an error ({})", error.kind)),
        Ok(Replayed::Waits(calls)) => {
            let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
            (true, "continues", format!("it goes on with {}", calls.join(", ")))
        }
        Ok(Replayed::Blocked { unasked }) => {
            let rest = format!("{} recorded outcomes after that were not replayed", unasked.len());
            (true, "blocked", format!("it waits for something that is not a call of its context; {rest}"))
        }
        Ok(_) => (true, "fits", "a later release says more".to_owned()),
        Err(ReplayRunError::Misfit(misfit @ Misfit::Diverged(_))) => (false, "diverges", misfit.to_string()),
        Err(ReplayRunError::Misfit(misfit)) => (false, "fails", misfit.to_string()),
        Err(ReplayRunError::Unreadable(error)) => (false, "unreadable", error.to_string()),
        Err(error @ ReplayRunError::UnknownRun { .. }) => return Err(Failure::new(Exit::NotFound, error.to_string())),
        Err(error) => return Err(Failure::new(Exit::Error, error.to_string())),
    };
    Ok(Verdict { run, fits, outcome, detail })
}
