//! Answers to the steps of a run that wait for one.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_flows::{Answer as StepAnswer, OpenQuestion, Report, refusal_for};
use workflow_sdk::operate::{Done, Order, OrderOutcome, Role};
use workflow_sdk::{ApprovalKind, RunId};

use crate::access::refusal_problem;
use crate::body::{Body, Path};
use crate::flows::SharedFlows;
use crate::orders::{Caller, carry_out, require};
use crate::{Actor, Answer, Problem, Refusal, Shared};

/// `POST /steps/{run}/{key}/ready`: decides an approval or a decision.
pub(crate) async fn ready(
    State(shared): State<Shared>,
    Extension(SharedFlows { flows, .. }): Extension<SharedFlows>,
    caller: Caller,
    Path((run, key)): Path<(RunId, String)>,
    Body(answer): Body<StepAnswer>,
) -> Answer<Done> {
    require(&caller.actor, Role::Operator, "step.ready")?;
    let action = flows
        .ready(run, &key, answer, &caller.actor.name)
        .await
        .map_err(|error| refusal_for(error, caller.actor.payloads))?;
    carry_out(&*shared.operate, &caller, Order::new(action)).await.map(Json)
}

/// `POST /steps/{run}/{key}/done`: ends a step that is done outside.
pub(crate) async fn done(
    State(shared): State<Shared>,
    Extension(SharedFlows { flows, .. }): Extension<SharedFlows>,
    caller: Caller,
    Path((run, key)): Path<(RunId, String)>,
    Body(report): Body<Report>,
) -> Answer<Done> {
    require(&caller.actor, Role::Operator, "step.done")?;
    let action = flows
        .done(run, &key, report, &caller.actor.name)
        .await
        .map_err(|error| refusal_for(error, caller.actor.payloads))?;
    carry_out(&*shared.operate, &caller, Order::new(action)).await.map(Json)
}

/// The answer of the bearer of a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenAnswer {
    approved: Option<bool>,
    choice: Option<Value>,
    note: Option<String>,
    by: Option<String>,
    report: Option<Report>,
}

/// `POST /gates/{token}`: decides the one gate of a token, or ends its step with a report. Its
/// bearer needs no other right. The name that it gives is a claim, and is kept as one.
pub(crate) async fn decide_by_token(
    State(shared): State<Shared>,
    Extension(SharedFlows { flows, access }): Extension<SharedFlows>,
    Path(token): Path<String>,
    headers: HeaderMap,
    Body(TokenAnswer { approved, choice, note, by, report }): Body<TokenAnswer>,
) -> Answer<Done> {
    if access.is_read_only() {
        return Err(refusal_problem(&access, Refusal::ReadOnly));
    }
    let (run, key) = flows.open_token(&token)?;
    let mut answer = StepAnswer::default();
    (answer.approved, answer.choice, answer.note) = (approved.unwrap_or(true), choice, note);
    let bearer = Actor::operator(by.map_or_else(|| "link".to_owned(), |name| format!("link: {name}")));
    let bearer = Caller::new(bearer, &headers);
    let action = match report {
        Some(report) => flows.done(run, &key, report, &bearer.actor.name).await,
        None => flows.ready_by_token(run, &key, answer, &bearer.actor.name).await,
    };
    let action = action.map_err(|error| without_other_gates(error.into()))?;
    let decided = carry_out(&*shared.operate, &bearer, Order::new(action)).await;
    decided.map(without_names).map(Json).map_err(without_other_gates)
}

/// The question of a gate.
#[derive(Serialize)]
pub(crate) struct GateQuestion {
    kind: ApprovalKind,
    prompt: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    show: Value,
}

/// `GET /gates/{token}`: shows the bearer of a token what it decides. Changes nothing, so a program
/// that looks at the links of a mail does no harm.
pub(crate) async fn question_of_token(
    Extension(SharedFlows { flows, .. }): Extension<SharedFlows>,
    Path(token): Path<String>,
) -> Answer<GateQuestion> {
    let (run, key) = flows.open_token(&token)?;
    let asked = flows.question_by_token(run, &key).await.map_err(|error| not_asked(error.into()))?;
    let OpenQuestion { kind, prompt, options, to, show, .. } = asked;
    let options = options.into_iter().map(|(name, meaning)| (name, meaning.into())).collect();
    Ok(Json(GateQuestion { kind, prompt, options, to, show }))
}

/// Leaves out what else the run waits for.
fn not_asked(problem: Problem) -> Problem {
    if !problem.is_of(StatusCode::CONFLICT) && !problem.is_of(StatusCode::NOT_FOUND) {
        return problem;
    }
    let detail = "no question is open: it was answered, its time has passed, its run has ended, or its step is done \
                  outside and takes a report";
    Problem::new(StatusCode::CONFLICT, "conflict", detail, "send the report, or ask for a new link")
}

/// Leaves out the account that decided before: the bearer of a token may be anybody.
fn without_names(mut done: Done) -> Done {
    if let OrderOutcome::AlreadyDecided { by, .. } = &mut done.outcome {
        *by = None;
        done.message = "this was decided before; nothing was changed".to_owned();
    }
    done
}

/// Leaves out what else the run waits for.
fn without_other_gates(problem: Problem) -> Problem {
    // Its text has the address of the database.
    if problem.has_code("standby") {
        let detail = "this server reads a standby, where nothing can be decided";
        return Problem::new(StatusCode::CONFLICT, "standby", detail, "ask for a link to the primary's server");
    }
    if !problem.is_of(StatusCode::CONFLICT) && !problem.is_of(StatusCode::NOT_FOUND) {
        return problem;
    }
    let detail = "the gate is closed: it was decided, its time has passed, or its run has ended";
    Problem::new(StatusCode::CONFLICT, "conflict", detail, "look at the run, or ask for a new link")
}
