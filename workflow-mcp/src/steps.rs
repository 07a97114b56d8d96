//! The answers that runs wait for, and `step_ready` and `step_done`, which give them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workflow_flows::{Answer, Report, StepVisit, answer_step, read_visits, refusal_for, report_step};
use workflow_sdk::operate::{Action, ListApprovals, OperateErrorCode, Payload, PayloadOf, Role, RunDetail, RunId};
use workflow_sdk::{ApprovalKind, Awaited, Explanation, StepKind};

use crate::answers::{LeftOut, Outcome, time};
use crate::caller::{Caller, run_id};
use crate::failure::Failure;
use crate::runs::LARGEST_VALUE;

/// The beginning of the name of a signal that answers a decision.
const DECISION: &str = "decision:";
/// The beginning of the name of a signal that ends a step that is done outside.
const REPORT: &str = "done:";

/// Something that a run waits for from outside.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Awaiting {
    /// The step, as the tools step_ready and step_done take it. A decision or a report has the
    /// number of the visit behind it, so that a late answer never reaches the next visit.
    step: String,
    /// `approval`, `decision`, `report`, `signal` or `event`.
    kind: &'static str,
    /// The tool that answers it.
    tool: &'static str,
    /// The person or group that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The values that are shown to them: the title of an approval; the prompt and the options
    /// of a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<Value>,
    /// The name and key of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Value>,
    /// Since when the run waits.
    since: String,
    /// When the wait ends without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// Returns what a run waits for from outside.
pub(crate) async fn waits(caller: &Caller, detail: &RunDetail) -> Result<Vec<Awaiting>, Failure> {
    let mut waits = approvals(caller, detail).await?;
    if let Explanation::Waiting { on, .. } = &detail.explanation {
        waits.extend(on.iter().filter_map(value_awaited));
    }
    add_visits(caller, detail.summary.id, &mut waits).await?;
    Ok(waits)
}

/// Returns whether a flow renders values before it waits for this.
fn is_prepared(wait: &Awaiting) -> bool {
    matches!(wait.kind, "approval" | "decision" | "report")
}

/// Adds the visits of steps, and the values that their flow has rendered for these visits. A
/// workflow in Rust has none.
async fn add_visits(caller: &Caller, run: RunId, waits: &mut [Awaiting]) -> Result<(), Failure> {
    let steps: Vec<&str> = waits.iter().filter(|wait| is_prepared(wait)).map(|wait| wait.step.as_str()).collect();
    if steps.is_empty() {
        return Ok(());
    }
    let visits = read_visits(&*caller.operate, run, &steps).await?;
    for (wait, visit) in waits.iter_mut().filter(|wait| is_prepared(wait)).zip(visits) {
        let Some(StepVisit { step, prepared, .. }) = visit else { continue };
        if wait.kind != "report" {
            wait.asks = asked(caller, run, prepared).await?;
        }
        // An approval is decided by the key of its wait.
        if wait.kind != "approval" {
            wait.step = step;
        }
        if wait.kind == "decision" {
            wait.to = wait.asks.as_ref().and_then(|asks| asks["to"].as_str()).map(str::to_owned);
        }
    }
    Ok(())
}

/// Returns the approvals that a run waits for. It may do other work at the same time.
async fn approvals(caller: &Caller, detail: &RunDetail) -> Result<Vec<Awaiting>, Failure> {
    let mut waits = Vec::new();
    if !matches!(detail.explanation, Explanation::Waiting { .. } | Explanation::Running { .. }) {
        return Ok(waits);
    }
    let run = detail.summary.id;
    let page = caller.operate.approvals(ListApprovals::new().run(run)).await?;
    // Decisions are among the waits of the run.
    for approval in page.items.into_iter().filter(|asked| asked.kind == ApprovalKind::Approval) {
        waits.push(Awaiting {
            kind: "approval",
            tool: "step_ready",
            to: approval.to,
            asks: None,
            event: None,
            since: time(approval.since),
            until: approval.until.map(time),
            step: approval.key,
        });
    }
    Ok(waits)
}

fn value_awaited(awaited: &Awaited) -> Option<Awaiting> {
    let (step, kind, tool) = match awaited.kind {
        StepKind::Event => (awaited.key.as_str(), "event", "event_emit"),
        StepKind::Signal => match (step_of(awaited, DECISION), step_of(awaited, REPORT)) {
            (Some(step), _) => (step, "decision", "step_done"),
            (None, Some(step)) => (step, "report", "step_done"),
            (None, None) if awaited.signal_name().is_some() => (awaited.key.as_str(), "signal", "step_done"),
            // An older release has recorded the wait without the name of its signal.
            (None, None) => (awaited.key.as_str(), "signal", "run_signal"),
        },
        _ => return None,
    };
    let event = awaited.event.as_ref().map(|event| json!({ "name": event.name, "key": event.key }));
    let (since, until) = (time(awaited.since), awaited.until.map(time));
    Some(Awaiting { step: step.to_owned(), kind, tool, to: None, asks: None, event, since, until })
}

/// Returns the step of a wait for a signal whose name begins so. Its scope may stand before it.
fn step_of<'a>(awaited: &'a Awaited, beginning: &str) -> Option<&'a str> {
    let (scope, step) = awaited.key.split_once(beginning)?;
    (scope.is_empty() || scope.ends_with('/')).then_some(step)
}

/// Returns the values that a flow has rendered for a visit, if the caller may see them.
async fn asked(caller: &Caller, run: RunId, prepared: PayloadOf) -> Result<Option<Value>, Failure> {
    if !caller.actor.payloads {
        return Ok(None);
    }
    match caller.operate.payload(run, prepared).await {
        Ok(payload) => Ok(LeftOut::default().show("asks", Some(payload), LARGEST_VALUE)),
        Err(error) if error.code == OperateErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Splits the key of a step into its id and the number of its repetition, such as `:2`.
fn repeated(step: &str) -> (&str, &str) {
    match step.rfind(':').map(|at| step.split_at(at)) {
        Some((id, repeat)) if repeat.len() > 1 && repeat.bytes().skip(1).all(|digit| digit.is_ascii_digit()) => {
            (id, repeat)
        }
        _ => (step, ""),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideStep {
    /// The id of the run.
    run: String,
    /// The step: `step` of an entry of `waits`.
    step: String,
    /// Of an approval: `true` approves, `false` rejects. Default: true.
    #[serde(default = "yes")]
    approved: bool,
    /// Of a decision: the name of the option.
    choice: Option<Value>,
    /// Goes to the run with the decision.
    note: Option<String>,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

const fn yes() -> bool {
    true
}

pub(crate) async fn decide_step(caller: Caller, decide: DecideStep) -> Result<Outcome, Failure> {
    caller.needs(Role::Operator, "step_ready")?;
    let DecideStep { run, step, approved, choice, note, reason } = decide;
    let mut answer = Answer::default();
    (answer.approved, answer.choice, answer.note) = (approved, choice, note);
    let action = answer_step(&*caller.operate, run_id(&run)?, &step, answer, &caller.actor.name).await;
    let action = action.map_err(|error| refusal_for(error, caller.actor.payloads))?;
    caller.order(action, reason).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndStep {
    /// The id of the run.
    run: String,
    /// The step: `step` of an entry of `waits`.
    step: String,
    /// The value: of a decision the name of one of its options.
    result: Value,
    /// Goes to the run with a decision.
    note: Option<String>,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn end_step(caller: Caller, end: EndStep) -> Result<Outcome, Failure> {
    caller.needs(Role::Operator, "step_done")?;
    let EndStep { run, step, result, note, reason } = end;
    let run = run_id(&run)?;
    let detail = caller.operate.run(run).await?;
    let (operate, by) = (&*caller.operate, &caller.actor.name);
    let awaited = signal_awaited(&detail, &step);
    let action = match awaited.map(|awaited| (step_of(awaited, DECISION), step_of(awaited, REPORT))) {
        Some((None, None)) => match awaited.and_then(|awaited| signal(run, awaited, &result)) {
            Some(action) => Ok(action),
            None => return Err(unnamed(&step)),
        },
        Some((Some(_), _)) => {
            let mut answer = Answer::default();
            (answer.choice, answer.note) = (Some(result), note);
            answer_step(operate, run, &step, answer, by).await
        }
        _ => {
            let mut report = Report::default();
            report.result = Some(result);
            report_step(operate, run, &step, report, by).await
        }
    };
    match action {
        Ok(action) => caller.order(action, reason).await,
        Err(error) if error.code == OperateErrorCode::Conflict => Err(not_awaited(&caller, &detail, &step).await?),
        Err(error) => Err(refusal_for(error, caller.actor.payloads).into()),
    }
}

/// Returns the signal for which a workflow in Rust waits. The time of the wait is part of its key,
/// so that a second value never reaches a later visit of the step. `None`: its name is not known.
fn signal(run: RunId, awaited: &Awaited, value: &Value) -> Option<Action> {
    let name = awaited.signal_name()?.to_owned();
    let key = Some(format!("{name}@{}", awaited.since.as_micros()));
    Some(Action::SignalRun { run, name, payload: Payload::from(value.clone()), key })
}

fn unnamed(step: &str) -> Failure {
    let message = format!("an older release has recorded the wait of step {step:?} without the name of its signal");
    let help = "send it by run_signal: `name` is the step without the scopes before it and the number behind it";
    Failure::new("conflict", message, help)
}

/// Returns the wait for a signal of this step.
fn signal_awaited<'d>(detail: &'d RunDetail, step: &str) -> Option<&'d Awaited> {
    let Explanation::Waiting { on, .. } = &detail.explanation else { return None };
    let is_named = |awaited: &&Awaited| match step_of(awaited, DECISION).or_else(|| step_of(awaited, REPORT)) {
        // The number behind the step is that of its visit, that of the wait may be another.
        Some(named) => repeated(named).0 == repeated(step).0,
        None => awaited.key == step,
    };
    on.iter().filter(|awaited| awaited.kind == StepKind::Signal).find(is_named)
}

async fn not_awaited(caller: &Caller, detail: &RunDetail, step: &str) -> Result<Failure, Failure> {
    let waits = waits(caller, detail).await?;
    let named: Vec<String> =
        waits.iter().map(|wait| format!("{} ({}, by {})", wait.step, wait.kind, wait.tool)).collect();
    let help = match named.is_empty() {
        true => "the run waits for no answer: read it with run_status".to_owned(),
        false => format!("it waits for {}", named.join(", ")),
    };
    let message = format!("run {} does not wait for a value of step {step:?}", detail.summary.id);
    Ok(Failure::new("conflict", message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_repetition_is_told_from_the_id() {
        for (step, parts) in [
            ("ask", ("ask", "")),
            ("ask:2", ("ask", ":2")),
            ("each/3/ask:12", ("each/3/ask", ":12")),
            ("a:b", ("a:b", "")),
            ("a:", ("a:", "")),
        ] {
            assert_eq!(repeated(step), parts);
        }
    }
}
