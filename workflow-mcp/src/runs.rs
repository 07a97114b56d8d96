//! `run_status`, `run_list`, and the changes of runs.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use workflow_flows::{FlowName, is_flow};
use workflow_http::internal::{may_search, shown};
use workflow_sdk::StoredError;
use workflow_sdk::operate::{
    Action, Cursor, HistoryItem, ListHistory, ListRuns, Payload, Query, RunDetail, RunId, RunSummary, StoredPayload,
};

use crate::answers::{LeftOut, Outcome, time, word};
use crate::caller::{Caller, run_id};
use crate::failure::Failure;
use crate::steps::{Awaiting, waits};

/// The largest input, output or question of an answer, in bytes.
pub(crate) const LARGEST_VALUE: u64 = 32 * 1024;
/// The largest value of a step in an answer, in bytes.
const LARGEST_STEP_VALUE: u64 = 2 * 1024;
/// The most steps of one answer.
const MOST_STEPS: u32 = 100;
/// The longest time that a call waits, in seconds.
const LONGEST_WAIT: u64 = 60;
/// The runs of one answer, unless the call says otherwise.
const RUNS: u32 = 20;
/// The most runs of one answer.
const MOST_RUNS: u32 = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadRun {
    /// The id of the run.
    run: String,
    /// How long to wait until the run ends or needs an answer, at most 60. Default: 0.
    #[serde(default)]
    wait_seconds: u64,
    /// Also return this many steps of the history, at most 100. Default: 0.
    #[serde(default)]
    steps: u32,
    /// Goes on in the history: `next_steps` of the last answer.
    after: Option<String>,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    #[serde(flatten)]
    run: RunItem,
    /// Why the run waits, or its work at the moment.
    why: String,
    /// `true` if the run will not go on.
    ended: bool,
    /// The input. For a run of a flow: the input of the flow, without its definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    /// The output of a run that has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// The error of a run that failed: `kind`, `message`, `step_key`, and of a flow a `payload`
    /// with its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// The answers that the run waits for, each with the tool that gives it.
    waits: Vec<Awaiting>,
    /// The steps that were asked for, in the order in which the run got their results.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepView>>,
    /// The value of `after` with which the history goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_steps: Option<String>,
    /// Values that are too large or hidden, with their sizes in bytes.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    left_out: LeftOut,
}

/// An attempt of a step.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StepView {
    /// The key of the step.
    step: String,
    /// The number of the attempt, from 1.
    attempt: i64,
    /// The kind, such as `step`, `approval` or `sleep`.
    kind: String,
    /// The status: `running`, `succeeded` or `failed`.
    status: String,
    /// When the attempt began.
    started_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

pub(crate) async fn read_run(caller: Caller, read: ReadRun) -> Result<RunView, Failure> {
    let run = run_id(&read.run)?;
    if read.steps > MOST_STEPS {
        let message = format!("a page of {} steps is refused", read.steps);
        return Err(Failure::new("bad_limit", message, format!("ask for at most {MOST_STEPS} steps")));
    }
    let wait = Duration::from_secs(read.wait_seconds.min(LONGEST_WAIT));
    let (detail, waits) = settled(&caller, run, wait).await?;
    let mut view = run_view(&caller, detail, waits);
    if read.steps > 0 {
        let mut list = ListHistory::new(run).limit(read.steps);
        list.cursor = read.after.map(Cursor::new);
        let page = caller.operate.history(list).await?;
        view.next_steps = page.next.map(|next| next.as_str().to_owned());
        view.steps = Some(page.items.into_iter().map(|item| step_view(&caller, item, &mut view.left_out)).collect());
    }
    Ok(view)
}

/// Reads a run, and again until it has ended, waits for an answer, or the time is over.
async fn settled(caller: &Caller, run: RunId, wait: Duration) -> Result<(RunDetail, Vec<Awaiting>), Failure> {
    const SHORTEST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    let mut pause = SHORTEST;
    loop {
        let detail = caller.operate.run(run).await?;
        let waits = waits(caller, &detail).await?;
        let left = wait.saturating_sub(begun.elapsed());
        if detail.summary.status.is_terminal() || !waits.is_empty() || left.is_zero() {
            return Ok((shown(detail, &caller.actor), waits));
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Converts a run for the answer. Values that the actor may not see were removed before.
pub(crate) fn run_view(caller: &Caller, detail: RunDetail, waits: Vec<Awaiting>) -> RunView {
    let mut left_out = LeftOut::default();
    let is_flow = is_flow(&detail.summary.lane.workflow);
    let input = input_of(detail.input, is_flow, &mut left_out);
    RunView {
        why: detail.why,
        ended: detail.summary.status.is_terminal(),
        input,
        output: left_out.show("output", detail.output, LARGEST_VALUE),
        error: detail.error.as_ref().map(error_of),
        waits,
        steps: None,
        next_steps: None,
        left_out,
        run: run_item(caller, detail.summary),
    }
}

/// Returns the input of a run. The input of a flow holds its whole definition, which is not shown.
fn input_of(input: Option<StoredPayload>, is_flow: bool, left_out: &mut LeftOut) -> Option<Value> {
    if !is_flow {
        return left_out.show("input", input, LARGEST_VALUE);
    }
    let mut whole = left_out.show("input", input, u64::MAX)?;
    let input = whole.get_mut("input").map(Value::take)?;
    left_out.fit("input", input, LARGEST_VALUE)
}

fn step_view(caller: &Caller, item: HistoryItem, left_out: &mut LeftOut) -> StepView {
    let output = item.output.map(|mut output| {
        output.json = output.json.filter(|_| caller.actor.payloads);
        output
    });
    StepView {
        output: left_out.show(&format!("step {} attempt {}", item.step, item.attempt), output, LARGEST_STEP_VALUE),
        error: item.error.filter(|_| caller.actor.payloads).as_ref().map(error_of),
        step: item.step,
        attempt: item.attempt,
        kind: word(&item.kind),
        status: word(&item.status),
        started_at: time(item.started_at),
        ended_at: item.completed_at.map(time),
    }
}

fn error_of(error: &StoredError) -> Value {
    serde_json::to_value(error).unwrap_or_default()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Which runs. Default: all.
    #[serde(default)]
    query: String,
    /// The most runs. Default: 20. Range: 1 to 200.
    limit: Option<u32>,
    /// Goes on in the list: `next` of the last answer to this query.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// The runs, the newest first.
    items: Vec<RunItem>,
    /// The value of `after` with which the list goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// `true` if no further run fits the query.
    complete: bool,
}

/// A run in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunItem {
    /// The id of the run.
    run: String,
    /// The name of the workflow; of a flow `flow`.
    workflow: String,
    /// The name of the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    /// The status: `pending`, `running`, `parked`, `succeeded`, `failed` or `canceled`.
    status: String,
    /// The key of its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    /// The beginning of the error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// When the run was started.
    created_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

pub(crate) async fn list_runs(caller: Caller, list: List) -> Result<RunList, Failure> {
    let limit = list.limit.unwrap_or(RUNS);
    if limit > MOST_RUNS {
        let message = format!("a page of {limit} runs is refused");
        return Err(Failure::new("bad_limit", message, format!("ask for 1 to {MOST_RUNS} runs")));
    }
    let query: Query = list.query.parse()?;
    may_search(&caller.actor, &query)?;
    let mut runs = ListRuns::new(query).limit(limit);
    runs.cursor = list.after.map(Cursor::new);
    let page = caller.operate.runs(runs).await?;
    Ok(RunList {
        items: page.items.into_iter().map(|run| run_item(&caller, run)).collect(),
        next: page.next.map(|next| next.as_str().to_owned()),
        complete: page.complete,
    })
}

fn run_item(caller: &Caller, run: RunSummary) -> RunItem {
    RunItem {
        run: run.id.to_string(),
        flow: FlowName::of(&run.lane.workflow, &run.tags).map(|flow| flow.name.to_owned()),
        workflow: run.lane.workflow,
        status: word(&run.status),
        key: run.key,
        tags: run.tags,
        failure: run.error.filter(|_| caller.actor.payloads).map(|error| error.message),
        created_at: time(run.created_at),
        ended_at: run.completed_at.map(time),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    /// The id of the run.
    run: String,
    /// The name of the signal.
    name: String,
    /// The value.
    #[serde(default)]
    payload: Value,
    /// Identifies a repetition: of the signals with one key, the run receives the first.
    key: Option<String>,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn signal_run(caller: Caller, signal: Signal) -> Result<Outcome, Failure> {
    let Signal { run, name, payload, key, reason } = signal;
    let action = Action::SignalRun { run: run_id(&run)?, name, payload: Payload::from(payload), key };
    caller.order(action, reason).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRun {
    /// The id of the run.
    run: String,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn cancel_run(caller: Caller, cancel: CancelRun) -> Result<Outcome, Failure> {
    // The call may be repeated because its answer was lost, which must not end the run.
    caller.order(Action::CancelRun { run: run_id(&cancel.run)?, only_ask: true }, cancel.reason).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryRun {
    /// The id of the run.
    run: String,
    /// A deadline that replaces the present one, in milliseconds from now.
    deadline_ms: Option<u64>,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn retry_run(caller: Caller, retry: RetryRun) -> Result<Outcome, Failure> {
    let action = Action::RetryRun { run: run_id(&retry.run)?, deadline_ms: retry.deadline_ms };
    caller.order(action, retry.reason).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Emit {
    /// The name of the event.
    name: String,
    /// The key of the event.
    key: String,
    /// The value.
    #[serde(default)]
    payload: Value,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn emit_event(caller: Caller, emit: Emit) -> Result<Outcome, Failure> {
    let Emit { name, key, payload, reason } = emit;
    caller.order(Action::EmitEvent { name, key, payload: Payload::from(payload) }, reason).await
}
