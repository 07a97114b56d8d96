//! Evaluations as steps: their values are recorded, so a replay evaluates nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workflow_sdk::{Error, Result, Retry};

use super::frame::Frame;
use super::mentions::Mentions;
use crate::expression::{ExpressionError, ResultKind, Scope};
use crate::{ErrorClass, FlowCode, FlowError};

/// Turns the failure of an expression into that of its step.
pub(super) fn failed(step: &str, what: &str, error: &ExpressionError) -> Error {
    FlowError::of_expression(step, what, error).into()
}

impl Frame<'_> {
    /// Renders a template. Call it in the body of a step only.
    pub(super) async fn render(&self, step: &str, what: &str, template: &Value, scope: &Scope) -> Result<Value> {
        let rendered = self.runtime().evaluator().render(template, scope, self.run.flow().missing_path).await;
        rendered.map_err(|error| failed(step, what, &error))
    }

    /// Renders a template that gives text. Call it in the body of a step only.
    pub(super) async fn render_text(&self, step: &str, what: &str, template: &str, scope: &Scope) -> Result<String> {
        Ok(as_text(&self.render(step, what, &template.into(), scope).await?))
    }

    /// Renders a template as a step of this name.
    pub(super) async fn render_step(&self, name: &str, step: &str, what: &str, template: &Value) -> Result<Value> {
        self.render_with(name, step, what, template, None).await
    }

    /// Renders a template that may read `result`, as a step of this name.
    pub(super) async fn render_with(
        &self,
        name: &str,
        step: &str,
        what: &str,
        template: &Value,
        result: Option<&Value>,
    ) -> Result<Value> {
        let mut scope = self.scope(&Mentions::of([template]));
        if let Some(result) = result {
            scope = scope.with("result", result.clone());
        }
        let scope = &scope;
        self.ctx.step(name, || self.render(step, what, template, scope)).retry(Retry::none()).await
    }

    /// Evaluates a condition. Call it in the body of a step only.
    pub(super) async fn condition(&self, step: &str, what: &str, source: &str, scope: &Scope) -> Result<bool> {
        let evaluated = self.runtime().evaluator().value(source, scope, self.run.flow().missing_path).await;
        match evaluated.map_err(|error| failed(step, what, &error))? {
            Value::Bool(holds) => Ok(holds),
            other => {
                let message =
                    format!("{what} is {}; it must be true or false: compare it", ResultKind::of(&other).name());
                Err(FlowError::new(FlowCode::Expression, ErrorClass::Invalid, step, message).into())
            }
        }
    }

    /// Evaluates a condition as the step of decisions of this step. `result` and the `index` of a
    /// turn are further roots.
    pub(super) async fn decide(
        &self,
        step: &str,
        what: &str,
        source: &str,
        further: &[(&str, &Value)],
    ) -> Result<bool> {
        let mut scope = self.scope(&Mentions::of_source(source));
        for (root, value) in further {
            scope = scope.with(*root, Value::clone(value));
        }
        let scope = &scope;
        self.record_decision(step, || self.condition(step, what, source, scope)).await
    }

    /// Runs a body that is tried once, as the step of decisions of this step. A run makes as many
    /// decisions as its worker allows.
    ///
    /// The body compares the count, so the refusal is recorded, and a replay by a worker with
    /// another limit takes every decision as it was recorded.
    pub(super) async fn record_decision<T, F>(&self, step: &str, mut body: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let (number, most) = (self.run.count_decision(), self.runtime().decision_limit());
        let body = || {
            let begun = if number > most { Err(too_many(step, most)) } else { Ok(body()) };
            async move { begun?.await }
        };
        let decided = self.record(&decision_key(step), body).await;
        if decided.as_ref().is_err_and(is_too_many) {
            self.run.end_decisions();
        }
        decided
    }

    /// Runs a body that is tried once, as a step of this name.
    pub(super) async fn record<T, F>(&self, name: &str, body: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send,
        F: Future<Output = Result<T>> + Send,
    {
        self.ctx.step(name, body).retry(Retry::none()).await
    }
}

/// Returns the failure of the first decision above the limit.
fn too_many(step: &str, most: u32) -> Error {
    let message = format!(
        "the run has made {most} decisions, which is the limit of this worker; make a part of the flow a flow of its \
         own, or set FlowRuntimeBuilder::decision_limit"
    );
    FlowError::new(FlowCode::Decisions, ErrorClass::Invalid, step, message).into()
}

/// Returns whether an error is that of the first decision above the limit, here or in a child.
pub(super) fn is_too_many(error: &Error) -> bool {
    error.downcast::<FlowError>().is_some_and(|error| error.code == FlowCode::Decisions)
}

/// Returns the key of the decisions of a step.
fn decision_key(step: &str) -> String {
    format!("{step}?")
}

/// Returns the key of what is rendered before a step waits for something.
pub(crate) fn prepared_key(step: &str) -> String {
    format!("{step}!")
}

/// Returns the texts that a list of templates gave. A template that gave a list stands for its
/// items.
pub(super) fn as_texts(rendered: &Value) -> Vec<String> {
    let given = rendered.as_array().into_iter().flatten();
    given.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)).map(as_text).collect()
}

/// Returns a value as text: a text as it is, any other value as JSON.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
