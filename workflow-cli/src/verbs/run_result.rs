//! The result of a run.

use std::time::Duration;

use workflow_sdk::operate::{Operate, PayloadOf, RunDetail};
use workflow_sdk::{RunId, RunStatus};

use crate::output::Output;
use crate::{Exit, Failure};

/// Refuses a run that failed or was canceled, or that has not ended.
pub(super) fn refuse_unless_succeeded(detail: &RunDetail) -> Result<(), Failure> {
    let (run, why) = (detail.summary.id, detail.why.clone());
    match detail.summary.status {
        RunStatus::Succeeded => Ok(()),
        RunStatus::Pending | RunStatus::Running | RunStatus::Parked => {
            let message = format!("run {run} has not ended: {why}");
            Err(Failure::new(Exit::TimedOut, message).help("wait longer with --wait"))
        }
        RunStatus::Canceled => Err(Failure::new(Exit::RunCanceled, why)),
        _ => {
            let help = format!("workflow runs show {run} shows what happened");
            Err(Failure::new(Exit::RunFailed, why).help(help))
        }
    }
}

/// Waits for the end of a run and prints its output. A run that failed or was canceled is a
/// failure with an exit code of its own.
pub(super) async fn print(operate: &dyn Operate, output: &Output, run: RunId, wait: Duration) -> Result<Exit, Failure> {
    let detail = operate.ended(run, wait).await?;
    refuse_unless_succeeded(&detail)?;
    let whole = match &detail.output {
        Some(payload) if payload.json.is_none() && payload.unreadable.is_none() => {
            Some(operate.payload(run, PayloadOf::Output).await?)
        }
        payload => payload.clone(),
    };
    let Some(payload) = whole else { return output.line("null").map(|()| Exit::Ok) };
    match (payload.json, payload.unreadable) {
        (Some(json), _) => output.line(json.as_str())?,
        (None, reason) => {
            let reason = reason.unwrap_or_else(|| "it is missing".to_owned());
            return Err(Failure::new(Exit::Error, format!("the output of run {run} cannot be shown: {reason}")));
        }
    }
    Ok(Exit::Ok)
}
