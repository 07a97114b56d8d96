use async_trait::async_trait;
use serde_json::Value;

use crate::expression::{Evaluator, ExpressionError, Scope};
use crate::graph::MissingPath;

/// Evaluates the expressions of flows. The interpreter calls it only inside the bodies of steps,
/// whose values are recorded: no expression runs in a replay.
///
/// An [`Evaluator`] is the implementation for workers. A test may put another one in its place.
#[async_trait]
pub trait Evaluate: Send + Sync + 'static {
    /// Renders a template: see [`Evaluator::render`].
    ///
    /// # Errors
    /// The [`ExpressionError`] of the first expression that fails.
    async fn render(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError>;

    /// Evaluates one expression: see [`Evaluator::value`].
    ///
    /// # Errors
    /// An [`ExpressionError`].
    async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError>;

    /// Runs a jq program: see [`Evaluator::jq`].
    ///
    /// # Errors
    /// An [`ExpressionError`].
    async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError>;

    /// Returns whether jq programs can run: see [`Evaluator::has_jq`]. A check of a flow with jq
    /// asks this. Default: they can.
    ///
    /// # Errors
    /// [`ExpressionError::Failed`] with the reason.
    fn has_jq(&self) -> Result<(), ExpressionError> {
        Ok(())
    }
}

#[async_trait]
impl Evaluate for Evaluator {
    async fn render(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        Evaluator::render(self, template, scope, missing).await
    }

    async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        Evaluator::value(self, source, scope, missing).await
    }

    async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        Evaluator::jq(self, program, input).await
    }

    fn has_jq(&self) -> Result<(), ExpressionError> {
        Evaluator::has_jq(self)
    }
}
