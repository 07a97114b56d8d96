use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use workflow_sdk::internal::{Entry, dry_replay};
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, RunsWith};

use super::TestError;
use super::commit_log::CommitLog;
use super::crash_everywhere::{Same, is_same, refuse_unfinished, with_signal};
use super::env_config::EnvConfig;
use super::trial::{Ending, TrialInput, run_trial};

/// The builder of runs of a workflow whose concurrent steps end in other orders: set options, then
/// await it. See [`TestEnv::interleave`](super::TestEnv::interleave).
///
/// ```
/// use futures::try_join;
/// use workflow_sdk::prelude::*;
/// use workflow_testing::{TestEnv, TestError};
///
/// #[workflow]
/// async fn both(ctx: &Ctx) -> Result<u32> {
///     let (one, two) = try_join!(
///         ctx.step("one", async || Ok::<_, Error>(1)),
///         ctx.step("two", async || Ok::<_, Error>(2)),
///     )?;
///     Ok(one + two)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TestError> {
/// let env = TestEnv::new().register(both).await?;
/// let seen = env.interleave(both, (), 0..20).await?;
/// assert_eq!(seen.orders, 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing runs until this is awaited"]
pub struct Interleave<S, W: RunsWith<S>> {
    config: Arc<EnvConfig<S>>,
    input: Result<TrialInput, serde_json::Error>,
    seeds: Vec<u64>,
    same: Option<Same<W::Output>>,
    workflow: PhantomData<fn() -> W>,
}

/// The number of orders under which a workflow gave equal results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interleaved {
    /// The number of runs, one per seed.
    pub runs: usize,
    /// The number of different orders of outcomes.
    pub orders: usize,
}

/// An order of outcomes under which a workflow does something different. Its `Display` form is the
/// report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InterleaveReport {
    /// The workflow's name.
    pub workflow: String,
    /// The seed. `env.interleave(.., .., [seed])` repeats this order.
    pub seed: u64,
    /// The keys of the outcomes of the run without delays, in the order in which the workflow got
    /// them.
    pub usual: Vec<String>,
    /// The keys of the outcomes of the run with this seed.
    pub order: Vec<String>,
    /// How the runs differ.
    pub differs: String,
}

impl<S: Send + Sync + 'static, W: RunsWith<S>> Interleave<S, W> {
    pub(super) fn new(config: Arc<EnvConfig<S>>, input: &W::Input, seeds: Vec<u64>) -> Self {
        let input = serde_json::to_value(input).map(|input| TrialInput { input, signals: Vec::new() });
        Self { config, input, seeds, same: None, workflow: PhantomData }
    }

    /// Sends this signal to every run after its start.
    pub fn signal(mut self, name: impl Into<String>, payload: &impl Serialize) -> Self {
        self.input = with_signal(self.input, name.into(), payload);
        self
    }

    /// Sets which results count as equal. Default: results with equal JSON.
    pub fn same(mut self, same: impl Fn(&W::Output, &W::Output) -> bool + Send + Sync + 'static) -> Self {
        self.same = Some(Box::new(same));
        self
    }

    async fn run(self) -> Result<Interleaved, TestError> {
        let input = self.input.map_err(TestError::Input)?;
        let (first, _) = run_trial::<S, W>(&self.config, &input, CommitLog::default(), None).await?;
        refuse_unfinished(&first)?;
        let mut orders = Vec::new();
        for seed in &self.seeds {
            let (other, state) = run_trial::<S, W>(&self.config, &input, CommitLog::default(), Some(*seed)).await?;
            let replayed = dry_replay(&Entry::new::<S, W>(&state), &other.history, DEFAULT_PAYLOAD_LIMIT);
            let differs = match (&other.ending, replayed) {
                (Ending::Succeeded(_) | Ending::Failed(_) | Ending::Canceled, Err(misfit)) => {
                    Some(format!("  on replay:  it does not fit its own history\n{misfit}"))
                }
                (ending, _) if !is_same(&first.ending, ending, self.same.as_ref()) => {
                    Some(format!("  result:     {}\n  with seed:  {ending}", first.ending))
                }
                _ => None,
            };
            let order = other.order();
            if let Some(differs) = differs {
                let (workflow, usual) = (W::NAME.into(), first.order());
                let report = InterleaveReport { workflow, seed: *seed, usual, order, differs };
                return Err(TestError::OrderMatters(Box::new(report)));
            }
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        Ok(Interleaved { runs: self.seeds.len(), orders: orders.len() })
    }
}

impl fmt::Display for InterleaveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "workflow {:?} does something different when its steps end in another order", self.workflow)?;
        writeln!(f, "  seed:       {}", self.seed)?;
        writeln!(f, "{}", self.differs)?;
        writeln!(f, "  outcomes:   {}", self.usual.join(", "))?;
        writeln!(f, "  with seed:  {}", self.order.join(", "))?;
        write!(
            f,
            "  what to do: choose results by their names, not by which came first; or pass .same(..) if both are right"
        )
    }
}

impl<S: Send + Sync + 'static, W: RunsWith<S>> IntoFuture for Interleave<S, W> {
    type Output = Result<Interleaved, TestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<S, W: RunsWith<S>> fmt::Debug for Interleave<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interleave").field("workflow", &W::NAME).field("seeds", &self.seeds).finish_non_exhaustive()
    }
}
