//! Changes: a form is posted, its order is performed, and the browser goes back.

use std::collections::{BTreeMap, HashMap};

use axum::Extension;
use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use workflow_flows::{answer_step, refusal_for};
use workflow_http::internal::perform_as;
use workflow_sdk::RunId;
use workflow_sdk::operate::{Action, Done, OperateError, OperateErrorCode, Order, OrderOutcome, Role, StartRun};

use crate::action::Fields;
use crate::problem::Problem;
use crate::visit::{Visit, is_inside, note_for_next};
use crate::{Shared, clock, facets, forms};

/// `POST /orders`: performs an order, and sends the browser back to its page. The page of an error
/// shows the form again, so that nothing is lost that was typed.
pub(crate) async fn perform(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    form: Result<axum::Form<HashMap<String, String>>, FormRejection>,
) -> Result<Response, Problem> {
    let axum::Form(fields) = form.map_err(unread)?;
    let fields = Fields(fields);
    check_origin(&visit, &headers, &fields)?;
    perform_form(&shared, &visit, &fields).await.map_err(|problem| with_form(&visit, &fields, problem))
}

async fn perform_form(shared: &Shared, visit: &Visit, fields: &Fields) -> Result<Response, Problem> {
    if fields.text("action").as_deref() == Some("each_run") {
        return each(shared, visit, fields).await;
    }
    let done = match fields.text("action").as_deref() {
        Some("start_flow") => start_flow(shared, visit, fields).await?,
        Some("choose") => give(shared, visit, fields, choose(shared, visit, fields).await?).await?,
        _ => give(shared, visit, fields, fields.action()?).await?,
    };
    let place = match done.outcome {
        OrderOutcome::BulkStarted { bulk } | OrderOutcome::BulkExisted { bulk } => format!("/bulk/{bulk}"),
        OrderOutcome::Started { run } | OrderOutcome::Existed { run } => format!("/runs/{run}"),
        OrderOutcome::Deleted { .. } => "/runs".to_owned(),
        _ => fields.text("back").filter(|back| is_inside(back)).unwrap_or_else(|| "/".to_owned()),
    };
    let place = [(header::LOCATION, visit.link(&place)), note_for_next(visit, &done.message)];
    Ok((StatusCode::SEE_OTHER, place).into_response())
}

/// Adds the form to the page of an error, unless the actor may not give the order.
fn with_form(visit: &Visit, fields: &Fields, problem: Problem) -> Problem {
    let is_refused = matches!(problem.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let sent: BTreeMap<String, String> = fields.0.clone().into_iter().collect();
    if is_refused || !visit.may(role_of(forms::action_of(&sent))) { problem } else { problem.sent(sent) }
}

/// Returns the role that an action needs, also one whose other fields cannot be read.
fn role_of(action: &str) -> Role {
    match action {
        "start_run" | "start_flow" | "fork_run" | "signal_run" | "approve" | "reject" | "choose" => Role::Operator,
        "cancel_run" | "terminate_run" | "pause_run" | "resume_run" | "retry_run" => Role::Operator,
        "set_priority" | "move_to" | "stop_bulk" | "pause_queue" | "resume_queue" => Role::Operator,
        "pause_schedule" | "resume_schedule" | "trigger_schedule" => Role::Operator,
        _ => Role::Admin,
    }
}

/// Returns the action that answers a decision. An option that it does not have is refused.
async fn choose(shared: &Shared, visit: &Visit, fields: &Fields) -> Result<Action, Problem> {
    check_role(visit, Role::Operator, "step.ready")?;
    let (run, step, answer) = fields.choice()?;
    let action = answer_step(&*shared.operate, run, &step, answer, &visit.actor.name).await;
    Ok(action.map_err(|error| refusal_for(error, visit.actor.payloads))?)
}

/// Gives the order of an action.
async fn give(shared: &Shared, visit: &Visit, fields: &Fields, action: Action) -> Result<Done, Problem> {
    Ok(perform_as(&*shared.operate, &visit.actor, order(visit, fields, action)?).await?)
}

/// Starts a run of a deployed flow, once for its key.
async fn start_flow(shared: &Shared, visit: &Visit, fields: &Fields) -> Result<Done, Problem> {
    check_role(visit, Role::Operator, "run.start")?;
    let flows = shared.deployed()?;
    let flow = flows.find(&fields.required_name("flow")?, fields.name("version").as_deref()).await?;
    let start = flow.into_start().input(fields.json("input")?.unwrap_or_default()).actor(&visit.actor.name);
    let perform = |run: StartRun| {
        let order = Order::new(Action::StartRun(Box::new(run)));
        let order = fields.text("reason").into_iter().fold(order, Order::reason);
        perform_as(&*shared.operate, &visit.actor, order)
    };
    Ok(flows.start(start, fields.text("key").as_deref(), perform).await?)
}

/// Refuses an actor that has less than this role, and each change of a server that only reads.
fn check_role(visit: &Visit, needed: Role, verb: &str) -> Result<(), Problem> {
    if visit.may(needed) {
        return Ok(());
    }
    let message = format!("{verb} needs the role {needed:?}, and {} is {:?}.", visit.actor.name, visit.actor.role);
    Err(Problem::forbidden(message, "Ask a person with this role."))
}

/// Returns the order of an action, if the actor may give it.
fn order(visit: &Visit, fields: &Fields, action: Action) -> Result<Order, Problem> {
    check_role(visit, action.role(), action.verb())?;
    if let Action::StartBulk(bulk) = &action {
        visit.check_search(&bulk.query)?;
    }
    let order = Order::new(action);
    Ok(fields.text("reason").into_iter().fold(order, Order::reason))
}

/// Performs one order for each of the chosen runs. A run that refuses it does not stop the others;
/// an error that each of them would have does.
async fn each(shared: &Shared, visit: &Visit, fields: &Fields) -> Result<Response, Problem> {
    let (apply, runs) = (fields.apply()?, fields.runs()?);
    let orders = runs.iter().map(|run| order(visit, fields, apply.on(*run)));
    let orders = orders.collect::<Result<Vec<Order>, Problem>>()?;
    let all = orders.len();
    let (mut asked, mut refusals) = (0, Vec::new());
    for (number, (run, order)) in runs.iter().zip(orders).enumerate() {
        match perform_as(&*shared.operate, &visit.actor, order).await {
            Ok(done) => asked += usize::from(matches!(done.outcome, OrderOutcome::AlreadyRequested { .. })),
            Err(error) if error.code.applies_to_all() => {
                // The form that is shown again leaves out the runs that were dealt with.
                let left: Vec<String> = runs.iter().skip(number).map(RunId::to_string).collect();
                let mut rest = fields.0.clone();
                rest.insert("runs".to_owned(), left.join(" "));
                return Err(with_form(visit, &Fields(rest), stopped(error, *run, number).into()));
            }
            Err(error) => refusals.push(format!("{run}: {}", error.message)),
        }
    }
    let verb = apply.verb();
    let done = all - refusals.len() - asked;
    let mut note = match refusals.len() + asked {
        0 => format!("{verb} was done for {}", clock::counted(all as u64, "run")),
        _ => format!("{verb} was done for {done} of {all} runs"),
    };
    if asked > 0 {
        note.push_str(&format!("; asked to end before, and left so: {asked}"));
    }
    if let Some(first) = refusals.first() {
        note.push_str(&format!("; the first that refused it is {first}"));
    }
    let list = facets::link(visit, &fields.text("q").unwrap_or_default());
    let place = [(header::LOCATION, list), note_for_next(visit, &note)];
    Ok((StatusCode::SEE_OTHER, place).into_response())
}

/// Returns the error of this run, after which no further run is tried, with what is known of the
/// `before` runs before it and of the run itself.
fn stopped(mut error: OperateError, run: RunId, before: usize) -> OperateError {
    if before > 0 {
        let were = if before == 1 { "was" } else { "were" };
        let runs = clock::counted(before as u64, "run");
        error.message.push_str(&format!("; {runs} {were} dealt with before"));
    }
    if matches!(error.code, OperateErrorCode::TimedOut | OperateErrorCode::Unavailable) {
        error.message.push_str(&format!("; whether run {run} was changed is not known"));
    }
    error
}

fn unread(rejection: FormRejection) -> Problem {
    let help = "Go back, and send the form again. A value of more than 1 MiB goes through the API.";
    Problem::new(rejection.status(), "The form cannot be read", rejection.body_text(), help)
}

/// Accepts only a form that a page of this dashboard has sent. The browser must say so, and the
/// form must repeat the token of its cookie, which no page of another site can read.
fn check_origin(visit: &Visit, headers: &HeaderMap, fields: &Fields) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_from_here = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin.split_once("://").map(|(_, of)| of) == text("host"),
        (None, None) => false,
    };
    if !is_from_here {
        let help = "Open the dashboard itself, and do it there. A program uses the API.";
        return Err(Problem::forbidden("The form does not come from a page of this dashboard.", help));
    }
    if !visit.has_sent_token(&fields.text("token").unwrap_or_default()) {
        let help = "Allow cookies for this address, load the page again, and repeat it.";
        return Err(Problem::forbidden("The form is older than the session of this browser.", help));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_role_of_a_form_is_that_of_its_action() {
        const RUN: &str = "01a2179e-6563-77f9-814a-e7a8f1ed3d63";
        const NAMES: [(&str, &str); 13] = [
            ("run", RUN),
            ("bulk", RUN),
            ("workflow", "w"),
            ("queue", "q"),
            ("gate", "g"),
            ("limit", "l"),
            ("schedule", "s"),
            ("step", "s"),
            ("name", "n"),
            ("priority", "low"),
            ("deadline", "1"),
            ("deadline_unit", "hours"),
            ("q", "is:open"),
        ];
        let of_one = [
            ["start_run", "fork_run", "cancel_run", "terminate_run", "pause_run", "resume_run", "retry_run"].as_slice(),
            &["set_priority", "move_to", "delete_run", "stop_bulk", "signal_run", "approve", "reject"],
            &["pause_queue", "resume_queue", "set_queue_limits", "clear_queue_limits", "weigh_gate", "set_limit"],
            &["clear_limit", "pause_schedule", "resume_schedule", "trigger_schedule", "revert_schedule"],
            &["delete_schedule"],
        ];
        let of_many = ["cancel_run", "terminate_run", "pause_run", "resume_run", "set_priority", "move_to"];
        let of_many = of_many.into_iter().chain(["retry_run", "fork_run", "delete_run"]);
        let all = of_one.concat().into_iter().map(|action| [("action", action), ("apply", "")]);
        for form in all.chain(of_many.map(|apply| [("action", "start_bulk"), ("apply", apply)])) {
            let sent: BTreeMap<String, String> =
                NAMES.iter().chain(&form).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let action = Fields(sent.clone().into_iter().collect()).action().unwrap();
            assert_eq!(role_of(forms::action_of(&sent)), action.role(), "{form:?}");
        }
        for action in ["start_flow", "choose"] {
            assert_eq!(role_of(action), Role::Operator);
        }
    }
}
