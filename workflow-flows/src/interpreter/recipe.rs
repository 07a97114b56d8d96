//! Questions to a model.

use serde_json::{Value, json};
use workflow_sdk::Result;

use super::evaluation::as_text;
use super::frame::Frame;
use super::mentions::Mentions;
use super::tool::{Failed, after, make_output, run_body, within};
use crate::expression::Scope;
use crate::graph::{Recipe, Step};
use crate::{ErrorClass, FlowCode, FlowError, ModelCall, ToolError};

/// Asks a model as one step, whose value is the value of the answer.
pub(super) async fn run_recipe(frame: &Frame<'_>, step: &Step, recipe: &Recipe) -> Result<Value> {
    // A named recipe has texts that this flow does not know, but these read `args` alone.
    let texts: Vec<Value> = [&recipe.system, &recipe.prompt].into_iter().flatten().map(|text| json!(text)).collect();
    let scope = &frame.scope(&Mentions::of(texts.iter().chain(step.output.iter()).chain([&recipe.args])));
    let key = frame.call_key(&step.id);
    let key = key.as_str();
    let attempt = || async move {
        let answer =
            ask(frame, step, recipe, (key, scope)).await.map_err(|error| after(frame, step.retry.as_ref(), error))?;
        make_output(frame, step, answer, scope).await
    };
    run_body(frame, step, attempt).await
}

async fn ask(frame: &Frame<'_>, step: &Step, recipe: &Recipe, (key, scope): (&str, &Scope)) -> Result<Value, Failed> {
    let failed = |class, message: String| Failed::of(&step.id, ToolError::new(class, message));
    let lacks = |message| failed(ErrorClass::Unavailable, message);
    let Some(model) = frame.runtime().model() else {
        return Err(lacks("this worker has no model; give it one with FlowRuntimeBuilder::model".to_owned()));
    };
    let empty = Recipe::default();
    let named = match &recipe.name {
        None => &empty,
        Some(name) => match frame.runtime().recipe(name) {
            Some(named) => named,
            None => return Err(lacks(format!("this worker has no recipe {name:?}; add it, or name another one"))),
        },
    };
    let args = frame.render(&step.id, "args", &recipe.args, scope).await?;
    let scope = &scope.clone().with("args", args);
    let system = match recipe.system.as_ref().or(named.system.as_ref()) {
        None => None,
        Some(text) => Some(frame.render_text(&step.id, "system", text, scope).await?),
    };
    let Some(prompt) = recipe.prompt.as_ref().or(named.prompt.as_ref()) else {
        return Err(failed(ErrorClass::Invalid, "the recipe has no prompt".to_owned()));
    };
    let mut call = ModelCall::new(frame.render_text(&step.id, "prompt", prompt, scope).await?);
    call.model = recipe.model.clone().or_else(|| named.model.clone());
    call.system = system;
    call.output = recipe.output.clone().or_else(|| named.output.clone());
    call.max_tokens = recipe.max_tokens.or(named.max_tokens);
    call.repair = recipe.repair.max(named.repair);
    call.actor.clone_from(&frame.run.start.actor);
    call.idempotency_key = key.to_owned();
    call.timeout = step.timeout;
    let is_text = call.output.is_none();
    let answer = within(step.timeout, model.complete(call)).await.map_err(|error| Failed::of(&step.id, error))?;
    if !answer.problems.is_empty() {
        let message = format!("the answer does not fit its schema: {}", answer.problems.join("; "));
        return Err(Failed::Tool(FlowError::new(FlowCode::Answer, ErrorClass::Failed, &step.id, message), None));
    }
    Ok(if is_text { as_text(&answer.value).into() } else { answer.value })
}
