//! Changes of one run, of several, or of all that a query finds.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use workflow_sdk::RunId;
use workflow_sdk::operate::{Action, BulkAction, Done, Operate, OperateError};

use crate::arguments::{Change, RunsVerb, Signal};
use crate::kit::blocking;
use crate::output::{Output, Rows};
use crate::selection::select;
use crate::{Exit, Failure};

use super::order::order;
use super::run_start::millis;
use super::{bulk, payload};

/// One run with the outcome of its change.
#[derive(Debug, Serialize)]
struct Changed {
    run: RunId,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    done: Option<Done>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<OperateError>,
}

pub(super) async fn change(operate: &dyn Operate, output: &Output, verb: RunsVerb) -> Result<Exit, Failure> {
    match verb {
        RunsVerb::Cancel(change) => apply(operate, output, &change, BulkAction::CancelRun).await,
        RunsVerb::Terminate(change) => apply(operate, output, &change, BulkAction::TerminateRun).await,
        RunsVerb::Pause(change) => apply(operate, output, &change, BulkAction::PauseRun).await,
        RunsVerb::Resume(change) => apply(operate, output, &change, BulkAction::ResumeRun).await,
        RunsVerb::SetPriority { priority, change } => {
            apply(operate, output, &change, BulkAction::SetPriority { priority: priority.priority() }).await
        }
        RunsVerb::MoveTo { queue, change } => apply(operate, output, &change, BulkAction::MoveTo { queue }).await,
        RunsVerb::Retry { deadline, change } => {
            apply(operate, output, &change, BulkAction::RetryRun { deadline_ms: deadline.map(millis) }).await
        }
        RunsVerb::Delete(change) => apply(operate, output, &change, BulkAction::DeleteRun).await,
        RunsVerb::Signal(Signal { name, payload, key, change }) => {
            let payload = payload::load(payload).await?;
            apply(operate, output, &change, BulkAction::SignalRun { name, payload, key }).await
        }
        _ => Err(Failure::new(Exit::Error, "this verb changes no run")),
    }
}

async fn apply(operate: &dyn Operate, output: &Output, change: &Change, action: BulkAction) -> Result<Exit, Failure> {
    let Change { selected, confirm, author } = change;
    // A script writes this if a variable of the shell is not set.
    if selected.query.as_deref().is_some_and(|query| query.trim().is_empty()) {
        let message = "the query of --where is empty, so it would mean every run";
        return Err(Failure::usage(message, "name the runs, for example is:open or is:ended"));
    }
    if let Some(query) = &selected.query
        && !confirm.dry_run
        && (confirm.detach || bulk::has_worker(operate).await?)
    {
        return bulk::start(operate, output, query, action, change).await;
    }
    let runs = select(operate, selected).await?;
    let is_query = selected.query.is_some();
    if confirm.dry_run {
        let may_stay = "those that have ended, or are so already, may stay as they are";
        output.note(format!("{}; {may_stay}; nothing was changed", matching(&runs)));
        output.list(&runs, &runs, ToString::to_string, |_| {
            let mut rows = Rows::new(&["RUN"]);
            runs.iter().for_each(|run| rows.push(vec![run.into()]));
            rows
        })?;
        return Ok(Exit::Ok);
    }
    if is_query && !confirm.yes && !agrees(&count(&runs), runs.is_empty()).await? {
        return Err(Failure::new(Exit::Usage, format!("{}, and nothing was changed", matching(&runs)))
            .help("add --yes to change them, or --dry-run to see them"));
    }
    let is_named = matches!(&selected.runs[..], [one] if one != "-");
    let (mut changed, mut late) = (Vec::new(), 0);
    for run in runs {
        let action = match action {
            // A second cancel of one run that is named terminates it; one of many must not.
            BulkAction::CancelRun if is_named => Action::CancelRun { run, only_ask: false },
            _ => action.on(run),
        };
        let came_too_late = super::order::came_too_late(&action);
        let outcome = operate.perform(order(action, author)).await;
        // A refusal of one run does not end the command; a database that is away does.
        match outcome {
            Ok(done) => {
                late += usize::from(came_too_late(&done.outcome));
                changed.push(Changed { run, done: Some(done), error: None });
            }
            Err(error) if error.code.applies_to_all() => return Err(stopped(error, changed.len())),
            Err(error) => changed.push(Changed { run, done: None, error: Some(error) }),
        }
    }
    report(output, is_query, &changed, late)
}

fn stopped(error: OperateError, done: usize) -> Failure {
    let failure = Failure::from(error);
    match done {
        0 => failure,
        _ => Failure { message: format!("{}; {done} runs were dealt with before", failure.message), ..failure },
    }
}

fn count(runs: &[RunId]) -> String {
    if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) }
}

fn matching(runs: &[RunId]) -> String {
    format!("{} {}", count(runs), if runs.len() == 1 { "matches" } else { "match" })
}

/// Asks a person, if one is there. The keyboard can interrupt the question.
pub(crate) async fn agrees(runs: &str, is_empty: bool) -> Result<bool, Failure> {
    if is_empty {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    write!(io::stderr(), "Change {runs}? [y/N] ")?;
    let answer = blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer)
    })
    .await?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prints the changes, of which some came too late, as if these had failed.
fn report(output: &Output, is_query: bool, changed: &[Changed], late: usize) -> Result<Exit, Failure> {
    let failures = late + changed.iter().filter(|one| one.error.is_some()).count();
    if let [Changed { error: Some(error), .. }] = changed
        && !is_query
    {
        return Err(error.clone().into());
    }
    if output.is_for_people() {
        for one in changed {
            match (&one.done, &one.error) {
                (Some(done), _) => output.line(&done.message)?,
                (_, Some(error)) => output.note(format!("error: {error}")),
                _ => {}
            }
        }
        if changed.is_empty() {
            output.note("no run matches, and nothing was changed");
        }
    } else {
        output.list(&changed, changed, |one| one.run.to_string(), |_| Rows::new(&[]))?;
    }
    Ok(match failures {
        0 => Exit::Ok,
        _ if failures < changed.len() => Exit::Partly,
        _ => Exit::Error,
    })
}
