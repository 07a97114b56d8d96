use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use workflow_sdk::{Breaker, Error, Result, Retry};

use super::evaluation::as_text;
use super::frame::Frame;
use super::mentions::Mentions;
use super::retry;
use crate::expression::Scope;
use crate::graph::{MissingPath, RetryRule, Step, ToolUse};
use crate::secrets::{Seen, look_up};
use crate::{ErrorClass, FlowError, FlowRuntime, ToolCall, ToolError};

/// Calls a tool as one step. The body renders the arguments, asks the policy, calls the tool and
/// renders the output, so none of these runs in a replay.
pub(super) async fn run_tool(frame: &Frame<'_>, step: &Step, call: &ToolUse) -> Result<Value> {
    let scope = &frame.scope(&Mentions::of(step.output.iter().chain([&call.args])));
    let key = &frame.call_key(&step.id);
    let attempt = || async move {
        let place = Place { step: &step.id, key, timeout: step.timeout, token: None };
        let called = call_tool(&Caller::of(frame), &place, call, scope).await;
        let result = called.map_err(|error| after(frame, step.retry.as_ref(), error))?;
        make_output(frame, step, result, scope).await
    };
    run_body(frame, step, attempt).await
}

/// Runs a body with the retries, the breaker and the limit of this step.
pub(super) async fn run_body<F>(frame: &Frame<'_>, step: &Step, body: impl FnMut() -> F + Send) -> Result<Value>
where
    F: Future<Output = Result<Value>> + Send,
{
    run_named(frame, step, (&step.id, retry::policy(step.retry.as_ref())), body).await
}

/// Runs a body under this name and with these retries, and with the breaker and the limit of this
/// step.
pub(super) async fn run_named<F>(
    frame: &Frame<'_>,
    step: &Step,
    (name, retries): (&str, Retry),
    body: impl FnMut() -> F + Send,
) -> Result<Value>
where
    F: Future<Output = Result<Value>> + Send,
{
    let limit = match &step.limit {
        None => None,
        Some(limit) => {
            let template = &Value::from(limit.key.as_str());
            let scope = &frame.scope(&Mentions::of([template]));
            let body = || frame.render(&step.id, "limit.key", template, scope);
            Some((limit.name.as_str(), as_text(&frame.record_decision(&step.id, body).await?)))
        }
    };
    let mut engine = frame.ctx.step(name, body).retry(retries);
    if let Some((name, key)) = limit {
        engine = engine.limit(name, key);
    }
    if let Some(rule) = &step.breaker {
        let breaker = Breaker::named(&rule.name).failures(rule.failures).within(rule.within).open_for(rule.open_for);
        engine = engine.breaker(breaker);
    }
    engine.await
}

/// Renders the output of a step from its result, in the step's body.
pub(super) async fn make_output(frame: &Frame<'_>, step: &Step, result: Value, scope: &Scope) -> Result<Value> {
    match &step.output {
        None => Ok(result),
        Some(template) => frame.render(&step.id, "output", template, &scope.clone().with("result", result)).await,
    }
}

/// Decides whether another attempt follows this failure by this rule. Call it in the body of a step
/// only.
pub(super) fn after(frame: &Frame<'_>, rule: Option<&RetryRule>, failure: Failed) -> Error {
    match failure {
        Failed::Step(error) => error,
        Failed::Tool(error, asked) => {
            let (attempt, random) = (frame.ctx.attempt(), frame.ctx.random());
            let again = retry::again(rule, error.class, asked, attempt, random);
            error.again(again).into()
        }
    }
}

/// A failure of one attempt.
pub(super) enum Failed {
    /// A failure after which no attempt follows, such as that of an expression.
    Step(Error),
    /// A failure of a tool, and the delay that it asked for.
    Tool(FlowError, Option<Duration>),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Step(error)
    }
}

impl Failed {
    pub(super) fn of(step: &str, error: ToolError) -> Self {
        Self::Tool(FlowError::of_tool(step, &error), error.retry_after)
    }
}

/// The place of one call of a tool.
pub(super) struct Place<'p> {
    pub(super) step: &'p str,
    pub(super) key: &'p str,
    pub(super) timeout: Option<Duration>,
    /// The token that decides or ends the step from outside. It is taken out of results and errors.
    pub(super) token: Option<String>,
}

/// Calls tools on behalf of an account.
pub(super) struct Caller<'c> {
    pub(super) runtime: &'c FlowRuntime,
    pub(super) actor: &'c str,
    pub(super) missing: MissingPath,
}

impl<'c> Caller<'c> {
    pub(super) fn of(frame: &'c Frame<'_>) -> Self {
        Self { runtime: frame.runtime(), actor: &frame.run.start.actor, missing: frame.run.flow().missing_path }
    }
}

/// Calls a tool once.
pub(super) async fn call_tool(
    caller: &Caller<'_>,
    place: &Place<'_>,
    call: &ToolUse,
    scope: &Scope,
) -> Result<Value, Failed> {
    let Caller { runtime, actor, missing } = *caller;
    let failed = |error| Failed::of(place.step, error);
    let Some(tool) = runtime.find_tool(&call.tool) else {
        let message = format!("this worker has no tool {:?}; register it, or name another one", call.tool);
        return Err(failed(ToolError::new(ErrorClass::Unavailable, message)));
    };
    let mut seen = look_up(runtime.secrets(), actor, &call.args).await.map_err(failed)?;
    let scope = scope.clone().with("secrets", seen.to_value());
    let args = runtime.evaluator().render(&call.args, &scope, missing).await.map_err(|error| {
        let mut failure = FlowError::of_expression(place.step, "args", &error);
        failure.message = seen.redact_text(&failure.message);
        Error::from(failure)
    })?;
    let args = if call.texts { with_texts(&call.args, args) } else { args };
    if !runtime.policy().may(actor, &call.tool, &args) {
        let message =
            format!("{actor:?} may not call {:?}; ask for the permission, or start as another account", call.tool);
        return Err(failed(ToolError::new(ErrorClass::Invalid, message)));
    }
    let mut one = ToolCall::new(args, actor, place.key);
    one.timeout = place.timeout;
    one.token.clone_from(&place.token);
    seen.token.clone_from(&place.token);
    match AssertUnwindSafe(within(place.timeout, tool.call(one))).catch_unwind().await {
        Ok(Ok(result)) => Ok(seen.redact(result)),
        Ok(Err(error)) => Err(failed(ToolError { message: seen.redact_text(&error.message), ..error })),
        Err(panic) => resume_unwind(redact_panic(&seen, panic)),
    }
}

/// Writes numbers, booleans and null as texts where the template is a text.
fn with_texts(template: &Value, rendered: Value) -> Value {
    match (template, rendered) {
        (Value::String(_), scalar @ (Value::Null | Value::Bool(_) | Value::Number(_))) => {
            Value::String(as_text(&scalar))
        }
        (Value::Array(templates), Value::Array(items)) => {
            Value::Array(templates.iter().zip(items).map(|(template, item)| with_texts(template, item)).collect())
        }
        (Value::Object(templates), Value::Object(members)) => {
            let members = members.into_iter().map(|(name, member)| match templates.get(&name) {
                Some(template) => (name, with_texts(template, member)),
                None => (name, member),
            });
            Value::Object(members.collect())
        }
        (_, rendered) => rendered,
    }
}

/// Takes the secrets out of the message of a panic, which the engine records.
fn redact_panic(seen: &Seen, panic: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    match text.map(|text| seen.redact_text(text)) {
        Some(redacted) => Box::new(redacted),
        None => panic,
    }
}

/// Limits the time of one attempt.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    attempt: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let Some(limit) = limit else { return attempt.await };
    let late = || ToolError::new(ErrorClass::Timeout, format!("the attempt had not ended after {limit:?}"));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_templates_of_whole_texts_become_texts() {
        let template = json!({ "a": "{{x}}", "b": ["{{x}}", 1, true], "c": "{{y}}", "d": { "e": "{{z}}" } });
        let rendered = json!({ "a": 200, "b": [false, 1, true], "c": [1, { "f": 2 }], "d": { "e": null } });
        let expected = json!({ "a": "200", "b": ["false", 1, true], "c": [1, { "f": 2 }], "d": { "e": "null" } });
        assert_eq!(with_texts(&template, rendered), expected);
        assert_eq!(with_texts(&json!("{{x}}"), json!({ "n": 1 })), json!({ "n": 1 }));
    }
}
