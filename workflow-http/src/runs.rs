//! Starts, results and changes of runs.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use workflow_sdk::operate::{Action, Done, ForkRun, Order, OrderOutcome, RunDetail, StartRun};
use workflow_sdk::{Priority, RunId};

use crate::body::{Body, Path, Query, Text, exact, parse};
use crate::orders::{Caller, carry_out};
use crate::reads::shown;
use crate::streams::OpenStream;
use crate::{Actor, Answer, Problem, Shared};

/// The longest time that a request waits for a run.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// How long to wait for the end of the run, in seconds, with or without the letter.
    wait: Option<String>,
}

impl Wait {
    pub(crate) fn duration(&self) -> Result<Option<Duration>, Problem> {
        duration_of(self.wait.as_deref())
    }
}

/// Returns the time that a request waits.
pub(crate) fn duration_of(wait: Option<&str>) -> Result<Option<Duration>, Problem> {
    let Some(text) = wait else { return Ok(None) };
    let seconds = text.trim_end_matches('s').parse::<u32>();
    let refused = |_| Problem::bad_input(format!("wait={text} is not understood"), "write seconds, as wait=30s");
    Ok(Some(Duration::from_secs(seconds.map_err(refused)?.into()).min(LONGEST_WAIT)))
}

/// The input of a run, as its text.
#[derive(Deserialize)]
struct Input {
    input: Box<RawValue>,
}

/// `POST /runs`: starts a run. The header `Idempotency-Key` is its key, and `traceparent` the span
/// below which its spans stand.
pub(crate) async fn start(
    State(shared): State<Shared>,
    caller: Caller,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
    Text(body): Text,
) -> Result<Response, Problem> {
    let wait = wait.duration()?;
    let mut start: StartRun = parse(&body)?;
    start.input = exact(&parse::<Input>(&body)?.input)?;
    start.key = idempotency_key(&headers, start.key)?;
    let done = carry_out(&*shared.operate, &caller, Order::new(Action::StartRun(Box::new(start)))).await?;
    started(&shared, &caller.actor, done, "runs/", wait).await
}

/// Returns the key of the header, or the one of the body.
pub(crate) fn idempotency_key(headers: &HeaderMap, given: Option<String>) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(given) };
    let refused = |_| Problem::bad_input("the Idempotency-Key is no text", "send a key of visible ASCII characters");
    let key = key.to_str().map_err(refused)?;
    if given.is_some_and(|other| other != key) {
        let detail = "the body and the header Idempotency-Key have different keys";
        return Err(Problem::bad_input(detail, "send the key once"));
    }
    Ok(Some(key.to_owned()))
}

/// Answers a start. `runs` is the way to the runs from the path of the request, so that the header
/// `Location` is right below any prefix.
pub(crate) async fn started(
    shared: &Shared,
    actor: &Actor,
    done: Done,
    runs: &str,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let (status, run) = match done.outcome {
        OrderOutcome::Started { run } => (StatusCode::CREATED, run),
        OrderOutcome::Existed { run } => (StatusCode::OK, run),
        _ => return Ok(Json(done).into_response()),
    };
    let place = [(header::LOCATION, format!("{runs}{run}"))];
    match wait {
        None => Ok((status, place, Json(done)).into_response()),
        // The run has been started, so the answer is no refusal.
        Some(wait) => {
            let open = shared.streams.open().ok();
            Ok((place, ended(shared, actor, run, open.map(|open| (open, wait))).await?).into_response())
        }
    }
}

/// Answers 200 with the run if it ends in the time of the wait, else 202.
async fn ended(
    shared: &Shared,
    actor: &Actor,
    run: RunId,
    wait: Option<(OpenStream, Duration)>,
) -> Result<Response, Problem> {
    let waited = match wait {
        Some((mut open, wait)) => open.run(shared.operate.ended(run, wait)).await,
        None => None,
    };
    let detail: RunDetail = match waited {
        Some(detail) => detail?,
        None => shared.operate.run(run).await?,
    };
    let status = if detail.summary.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(shown(detail, actor))).into_response())
}

/// `GET /runs/{run}/result?wait=30s`: waits for the end of a run.
pub(crate) async fn result(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path(run): Path<RunId>,
    Query(wait): Query<Wait>,
) -> Result<Response, Problem> {
    let wait = match wait.duration()?.filter(|wait| !wait.is_zero()) {
        Some(wait) => Some((shared.streams.open()?, wait)),
        None => None,
    };
    ended(&shared, &actor, run, wait).await
}

/// Why a change is made.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    reason: Option<String>,
}

fn order(action: Action, reason: Option<String>) -> Order {
    let order = Order::new(action);
    match reason {
        Some(reason) => order.reason(reason),
        None => order,
    }
}

/// `POST /runs/{run}/cancel`, and the other changes that need no body.
pub(crate) async fn change(
    State(shared): State<Shared>,
    caller: Caller,
    Path((run, change)): Path<(RunId, String)>,
    Query(Reason { reason }): Query<Reason>,
) -> Answer<Done> {
    let action = match change.as_str() {
        // The request may be repeated because its answer was lost, which must not end the run.
        "cancel" => Action::CancelRun { run, only_ask: true },
        "terminate" => Action::TerminateRun { run },
        "pause" => Action::PauseRun { run },
        "resume" => Action::ResumeRun { run },
        "retry" => Action::RetryRun { run, deadline_ms: None },
        _ => {
            let help =
                "cancel, terminate, pause, resume, retry, fork, signals, priority, queue and approvals are known";
            let detail = format!("no change of a run is called {change:?}");
            return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail, help));
        }
    };
    carry_out(&*shared.operate, &caller, order(action, reason)).await.map(Json)
}

/// `DELETE /runs/{run}`: deletes an ended run.
pub(crate) async fn delete(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    Query(Reason { reason }): Query<Reason>,
) -> Answer<Done> {
    carry_out(&*shared.operate, &caller, order(Action::DeleteRun { run }, reason)).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFork {
    from: Option<String>,
    input: Option<Box<RawValue>>,
    version: Option<String>,
    queue: Option<String>,
    key: Option<String>,
    reason: Option<String>,
}

/// `POST /runs/{run}/fork`: starts a run from the history of this one. The header `Idempotency-Key`
/// is the key of the new run.
pub(crate) async fn fork(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    headers: HeaderMap,
    Body(new): Body<NewFork>,
) -> Result<Response, Problem> {
    let NewFork { from, input, version, queue, key, reason } = new;
    let mut fork = ForkRun::new(run);
    fork.input = input.as_deref().map(exact).transpose()?;
    (fork.from, fork.version, fork.queue) = (from, version, queue);
    fork.key = idempotency_key(&headers, key)?;
    let done = carry_out(&*shared.operate, &caller, order(Action::ForkRun(Box::new(fork)), reason)).await?;
    started(&shared, &caller.actor, done, "../../runs/", None).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSignal {
    name: String,
    payload: Box<RawValue>,
    key: Option<String>,
    reason: Option<String>,
}

/// `POST /runs/{run}/signals`: sends a signal. The header `Idempotency-Key` is its key.
pub(crate) async fn signal(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    headers: HeaderMap,
    Body(NewSignal { name, payload, key, reason }): Body<NewSignal>,
) -> Answer<Done> {
    let key = idempotency_key(&headers, key)?;
    let action = Action::SignalRun { run, name, payload: exact(&payload)?, key };
    carry_out(&*shared.operate, &caller, order(action, reason)).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPriority {
    priority: Priority,
    reason: Option<String>,
}

/// `POST /runs/{run}/priority`: sets the priority of a run that has not begun.
pub(crate) async fn set_priority(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    Body(NewPriority { priority, reason }): Body<NewPriority>,
) -> Answer<Done> {
    carry_out(&*shared.operate, &caller, order(Action::SetPriority { run, priority }, reason)).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewQueue {
    queue: String,
    reason: Option<String>,
}

/// `POST /runs/{run}/queue`: moves a run to another queue.
pub(crate) async fn move_to(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    Body(NewQueue { queue, reason }): Body<NewQueue>,
) -> Answer<Done> {
    carry_out(&*shared.operate, &caller, order(Action::MoveTo { run, queue }, reason)).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    approve: bool,
    note: Option<String>,
    reason: Option<String>,
}

/// `POST /runs/{run}/approvals/{approval}`: decides about an approval.
pub(crate) async fn decide(
    State(shared): State<Shared>,
    caller: Caller,
    Path((run, step)): Path<(RunId, String)>,
    Body(Decision { approve, note, reason }): Body<Decision>,
) -> Answer<Done> {
    let action = Action::DecideApproval { run, step, approve, note };
    carry_out(&*shared.operate, &caller, order(action, reason)).await.map(Json)
}
