use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::cel::Meter;
use super::jq::{self, HelperSource};
use super::pool::Pool;
use super::programs::Programs;
use super::render::Renderer;
use super::{Expression, ExpressionError, ExpressionLimits, InvalidExpressionLimit, Scope};
use crate::graph::MissingPath;

/// Runs expressions with bounds. One per process; a clone shares its threads and its cache.
///
/// Paths are evaluated where they are asked for. CEL runs on threads of the evaluator, jq in helper
/// processes, so no expression holds up a thread of tokio.
///
/// ```
/// use serde_json::json;
/// use workflow_flows::expression::{Evaluator, Scope};
/// use workflow_flows::graph::MissingPath;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let evaluator = Evaluator::new();
/// let scope = Scope::new().with("input", json!({"id": "o-7", "total": 120}));
/// let template = json!({"order": "{{input.id}}", "large": "{{input.total > 100}}"});
/// let rendered = evaluator.render(&template, &scope, MissingPath::Error).await?;
/// assert_eq!(rendered, json!({"order": "o-7", "large": true}));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Evaluator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    threads: Pool<()>,
    programs: Arc<Programs>,
    helpers: Pool<jq::Place>,
    source: HelperSource,
    limits: ExpressionLimits,
}

/// Settings of an [`Evaluator`].
#[derive(Debug, Clone)]
pub struct EvaluatorBuilder {
    threads: usize,
    helpers: usize,
    source: HelperSource,
    limits: ExpressionLimits,
}

impl Default for Evaluator {
    fn default() -> Self {
        Self::new()
    }
}

impl Evaluator {
    /// Creates an evaluator with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Begins an evaluator with other settings.
    #[must_use]
    pub fn builder() -> EvaluatorBuilder {
        let limits = ExpressionLimits::new();
        EvaluatorBuilder { threads: 2, helpers: 2, source: HelperSource::ThisProgram, limits }
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
        let limits = self.shared.limits;
        let mut has_cel = false;
        let rendered = renderer(scope, missing, limits, |_: &str| mark(&mut has_cel)).render(template);
        if !has_cel {
            return rendered;
        }
        let (template, scope, programs) = (template.clone(), scope.clone(), Arc::clone(&self.shared.programs));
        let job = move |(): &mut ()| {
            let mut meter = Meter::new(limits);
            let cel = |source: &str| programs.get(source)?.evaluate(&scope, &mut meter);
            renderer(&scope, missing, limits, cel).render(&template)
        };
        self.shared.threads.run(job).await
    }

    /// Evaluates one expression: a path, or CEL. `{{ }}` around the whole is left out.
    ///
    /// # Errors
    /// An [`ExpressionError`].
    ///
    /// # Cancel safety
    /// That of [`render`](Self::render).
    pub async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        let expression = Expression::split(source)?;
        let limits = self.shared.limits;
        let mut has_cel = false;
        let found = renderer(scope, missing, limits, |_: &str| mark(&mut has_cel)).expression(&expression);
        if !has_cel {
            return found;
        }
        let (scope, programs) = (scope.clone(), Arc::clone(&self.shared.programs));
        let job = move |(): &mut ()| {
            let mut meter = Meter::new(limits);
            let cel = |source: &str| programs.get(source)?.evaluate(&scope, &mut meter);
            renderer(&scope, missing, limits, cel).expression(&expression)
        };
        self.shared.threads.run(job).await
    }

    /// Runs a jq program on one input and returns its outputs.
    ///
    /// # Errors
    /// An [`ExpressionError`]. [`ExpressionError::Failed`] also if this program cannot start helper
    /// processes: see [`jq_helper`](super::jq_helper).
    ///
    /// # Cancel safety
    /// That of [`render`](Self::render).
    pub async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        let request = jq::Request::new(program, input, self.shared.limits)?;
        let source = self.shared.source.clone();
        self.shared.helpers.run(move |place: &mut jq::Place| place.ask(&source, &request)).await
    }

    /// Checks the syntax of a jq program.
    ///
    /// # Errors
    /// [`ExpressionError::Syntax`] with the column, or that of [`jq`](Self::jq).
    ///
    /// # Cancel safety
    /// That of [`render`](Self::render).
    pub async fn check_jq(&self, program: &str) -> Result<(), ExpressionError> {
        let request = jq::Request::check(program, self.shared.limits)?;
        let source = self.shared.source.clone();
        self.shared.helpers.run(move |place: &mut jq::Place| place.ask(&source, &request)).await.map(drop)
    }

    /// Returns whether jq programs can run: whether a helper process can be started.
    ///
    /// # Errors
    /// [`ExpressionError::Failed`] with the reason.
    pub fn has_jq(&self) -> Result<(), ExpressionError> {
        self.shared.source.command().map(drop)
    }
}

impl EvaluatorBuilder {
    /// Sets the number of threads for CEL. Default: 2. At least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets the number of helper processes for jq. Default: 2. At least 1.
    #[must_use]
    pub fn helpers(mut self, helpers: usize) -> Self {
        self.helpers = helpers.max(1);
        self
    }

    /// Sets the program of the helper processes. Its `main` begins with
    /// [`jq_helper`](super::jq_helper). Default: this program.
    #[must_use]
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.source = HelperSource::Program(program.into());
        self
    }

    /// Sets the limits of expressions. Default: [`ExpressionLimits::new`].
    ///
    /// # Errors
    /// [`InvalidExpressionLimit`] for the first limit outside of its range.
    pub fn limits(mut self, limits: ExpressionLimits) -> Result<Self, InvalidExpressionLimit> {
        limits.check()?;
        self.limits = limits;
        Ok(self)
    }

    /// Creates the evaluator. Nothing is started before it is needed.
    #[must_use]
    pub fn build(self) -> Evaluator {
        let shared = Shared {
            threads: Pool::new("flow-cel", self.threads),
            programs: Arc::default(),
            helpers: Pool::new("flow-jq", self.helpers),
            source: self.source,
            limits: self.limits,
        };
        Evaluator { shared: Arc::new(shared) }
    }
}

fn renderer<F>(scope: &Scope, missing: MissingPath, limits: ExpressionLimits, cel: F) -> Renderer<'_, F> {
    Renderer { scope, missing, cel, most: limits.rendered_bytes, room: limits.rendered_bytes }
}

/// Notes that an expression is CEL, which ends the attempt without a thread.
fn mark(has_cel: &mut bool) -> Result<Value, ExpressionError> {
    *has_cel = true;
    Err(ExpressionError::Budget("CEL needs a thread".to_owned()))
}
