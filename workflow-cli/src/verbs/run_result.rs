//! The result of a run.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use workflow_sdk::operate::{Operate, PayloadOf, RunDetail};
use workflow_sdk::{RunId, RunStatus};

use crate::output::Output;
use crate::{Exit, Failure};

/// The pauses between two looks at a run that has not ended.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// Waits for the end of a run and prints its output. A run that failed or was canceled is a
/// failure with an exit code of its own.
pub(super) async fn print(operate: &dyn Operate, output: &Output, run: RunId, wait: Duration) -> Result<Exit, Failure> {
    let detail = ended(operate, run, wait).await?;
    match detail.summary.status {
        RunStatus::Succeeded => {}
        RunStatus::Canceled => return Err(Failure::new(Exit::RunCanceled, detail.why)),
        _ => {
            let help = format!("workflow runs show {run} shows what happened");
            return Err(Failure::new(Exit::RunFailed, detail.why).help(help));
        }
    }
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

async fn ended(operate: &dyn Operate, run: RunId, wait: Duration) -> Result<RunDetail, Failure> {
    let begun = Instant::now();
    let mut pause = SHORTEST;
    loop {
        let detail = operate.run(run).await?;
        if detail.summary.status.is_terminal() {
            return Ok(detail);
        }
        let left = wait.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let message = format!("run {run} has not ended: {}", detail.why);
            return Err(Failure::new(Exit::TimedOut, message).help("wait longer with --wait"));
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST);
    }
}
