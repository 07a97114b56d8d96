use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use serde::Serialize;
use serde_json::Value;
use workflow_sdk::{RunsWith, StepKind};

use super::TestError;
use super::commit_log::{CommitLog, Side};
use super::crash_report::{CrashReport, Finding, Problem};
use super::effects::Effect;
use super::env_config::EnvConfig;
use super::trial::{Ending, Trial, TrialInput, run_trial};

/// Compares two results as the author of the test sees them.
pub(super) type Same<O> = Box<dyn Fn(&O, &O) -> bool + Send + Sync>;

/// The builder of runs of a workflow with a crash at every commit: set options, then await it. See
/// [`TestEnv::crash_everywhere`](super::TestEnv::crash_everywhere).
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_testing::{TestEnv, TestError, idempotent_effect};
///
/// #[workflow]
/// async fn pay(ctx: &Ctx, cents: u64) -> Result<u64> {
///     ctx.step("charge", || async {
///         idempotent_effect("charge", ctx.idempotency_key());
///         Ok::<_, Error>(cents)
///     })
///     .await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TestError> {
/// let env = TestEnv::new().register(pay).await?;
/// let survived = env.crash_everywhere(pay, 4200).await?;
/// assert!(survived.crashes >= 4, "the start, and the step with the end, before and after each");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing runs until this is awaited"]
pub struct CrashEverywhere<S, W: RunsWith<S>> {
    config: Arc<EnvConfig<S>>,
    input: Result<TrialInput, serde_json::Error>,
    same: Option<Same<W::Output>>,
    workflow: PhantomData<fn() -> W>,
}

/// The number of crashes that a workflow has survived. Its `Display` form says so in one sentence,
/// and whether marked effects were compared too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survived {
    /// The number of commits of the run without a crash.
    pub commits: usize,
    /// The number of workers that died, each in a run of its own.
    pub crashes: usize,
    /// The number of effects that stubs marked in the run without a crash. If it is 0, an effect
    /// that happens twice does not show.
    pub effects: usize,
}

impl fmt::Display for Survived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commits, crashes, effects } = self;
        write!(f, "survived {crashes} crashes around {commits} commits, ")?;
        match effects {
            0 => write!(f, "but {UNMARKED}"),
            1 => f.write_str("with 1 marked effect"),
            _ => write!(f, "with {effects} marked effects"),
        }
    }
}

const UNMARKED: &str = "no effect was marked, so an effect that happens twice does not show: mark the effects of stubs \
                        with effect(..) or idempotent_effect(..)";

impl<S: Send + Sync + 'static, W: RunsWith<S>> CrashEverywhere<S, W> {
    pub(super) fn new(config: Arc<EnvConfig<S>>, input: &W::Input) -> Self {
        let input = serde_json::to_value(input).map(|input| TrialInput { input, signals: Vec::new() });
        Self { config, input, same: None, workflow: PhantomData }
    }

    /// Sends this signal to every run after its start.
    pub fn signal(mut self, name: impl Into<String>, payload: &impl Serialize) -> Self {
        self.input = with_signal(self.input, name.into(), payload);
        self
    }

    /// Sets which results count as equal. Default: results with equal JSON. Set it if a result
    /// holds something that may differ after a crash, such as the number of an attempt.
    pub fn same(mut self, same: impl Fn(&W::Output, &W::Output) -> bool + Send + Sync + 'static) -> Self {
        self.same = Some(Box::new(same));
        self
    }

    async fn run(self) -> Result<Survived, TestError> {
        let input = self.input.map_err(TestError::Input)?;
        let (first, _) = run_trial::<S, W>(&self.config, &input, CommitLog::default(), None).await?;
        refuse_unfinished(&first)?;
        let effects = first.effects.len();
        if effects == 0 && has_bodies(&first) {
            tracing::warn!(workflow = W::NAME, "crash_everywhere: {UNMARKED}");
        }
        let mut findings = findings_of::<W::Output>(&first, &first, None);
        let mut crashes = 0;
        if findings.is_empty() {
            let numbers =
                first.commits.iter().zip(1..).filter(|(commit, _)| commit.has_changes).map(|(_, number)| number);
            let boundaries = numbers.flat_map(|number| [(number, Side::Before), (number, Side::After)]);
            let trials = boundaries
                .map(|(number, side)| run_trial::<S, W>(&self.config, &input, CommitLog::armed(number, side), None));
            // Each trial has a thread of its own. The results come in the order of the boundaries.
            let at_once = std::thread::available_parallelism().map_or(1, NonZero::get);
            let mut trials = stream::iter(trials.collect::<Vec<_>>()).buffered(at_once);
            while let Some(crashed) = trials.next().await {
                let (crashed, _) = crashed?;
                crashes += usize::from(crashed.died_at.is_some());
                findings.extend(findings_of(&first, &crashed, self.same.as_ref()));
            }
        }
        let commits = first.commits.iter().filter(|commit| commit.has_changes).count();
        if findings.is_empty() {
            return Ok(Survived { commits, crashes, effects });
        }
        Err(TestError::NotCrashSafe(Box::new(CrashReport { workflow: W::NAME.into(), commits, crashes, findings })))
    }
}

pub(super) fn with_signal(
    input: Result<TrialInput, serde_json::Error>,
    name: String,
    payload: &impl Serialize,
) -> Result<TrialInput, serde_json::Error> {
    let mut input = input?;
    input.signals.push((name, serde_json::to_value(payload)?));
    Ok(input)
}

/// Refuses a run that does not end without a fault, because no run with a fault can be compared
/// with it.
pub(super) fn refuse_unfinished(trial: &Trial) -> Result<(), TestError> {
    let run = trial.history.run.id;
    match &trial.ending {
        Ending::Waits(waits_for) => Err(TestError::StillWaiting { run, waits_for: waits_for.clone() }),
        Ending::Diverged(divergence) => Err(TestError::Diverged { divergence: divergence.clone() }),
        Ending::TooLong(waits_for) => {
            Err(TestError::TooLong { run, now: "the last step of time".into(), waits_for: waits_for.clone() })
        }
        Ending::Succeeded(_) | Ending::Failed(_) | Ending::Canceled => Ok(()),
    }
}

/// Returns whether the run has steps whose effects a stub could mark. The effect of a transaction
/// on the database needs no mark.
fn has_bodies(trial: &Trial) -> bool {
    trial.history.steps.iter().any(|row| matches!(row.kind, StepKind::Step | StepKind::Compensation))
}

fn findings_of<O: serde::de::DeserializeOwned>(first: &Trial, crashed: &Trial, same: Option<&Same<O>>) -> Vec<Finding> {
    let mut problems = Vec::new();
    if !is_same(&first.ending, &crashed.ending, same) {
        problems.push(Problem::Ending { expected: first.ending.clone(), found: crashed.ending.clone() });
    }
    if let Some(again) = &crashed.ran_again {
        problems.push(Problem::RanAgain { step: again.step.clone(), attempt: again.attempt });
    }
    problems.extend(doubled(first, crashed));
    let boundary = &crashed.died_at;
    problems.into_iter().map(|problem| Finding { boundary: boundary.clone(), problem }).collect()
}

pub(super) fn is_same<O: serde::de::DeserializeOwned>(one: &Ending, other: &Ending, same: Option<&Same<O>>) -> bool {
    let decode = |value: &Value| serde_json::from_value::<O>(value.clone()).ok();
    match (one, other, same) {
        (Ending::Succeeded(one), Ending::Succeeded(other), Some(same)) => {
            decode(one).zip(decode(other)).is_some_and(|(one, other)| same(&one, &other))
        }
        // The attempts that an error lists may differ.
        (Ending::Failed(one), Ending::Failed(other), _) => one.kind == other.kind && one.message == other.message,
        _ => one == other,
    }
}

/// Returns the effects that happened more often than their keys allow.
fn doubled(first: &Trial, crashed: &Trial) -> Vec<Problem> {
    let mut names: Vec<&str> = crashed.effects.iter().map(|effect| effect.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| doubled_one(name, first, crashed)).collect()
}

fn doubled_one(name: &str, first: &Trial, crashed: &Trial) -> Option<Problem> {
    let of = |trial: &Trial| -> Vec<Effect> { trial.effects.iter().filter(|it| it.name == name).cloned().collect() };
    let (expected, found) = (of(first), of(crashed));
    for (index, second) in found.iter().enumerate().filter(|(_, effect)| !effect.idempotent) {
        if let Some(earlier) = found[..index].iter().find(|it| it.key == second.key) {
            return Some(Problem::Twice { first: earlier.clone(), second: second.clone() });
        }
    }
    // A further key is a further effect. Without one, nothing was doubled.
    let (known, keys) = (keys(&expected), keys(&found));
    if keys.len() <= known.len() {
        return None;
    }
    let second = found.iter().rev().find(|it| found.iter().filter(|other| other.key == it.key).count() == 1)?;
    let earlier = found.iter().find(|it| it.step == second.step && it.key != second.key).or(found.first())?;
    Some(Problem::OtherKey { first: earlier.clone(), second: second.clone() })
}

fn keys(effects: &[Effect]) -> Vec<&str> {
    let mut keys: Vec<&str> = effects.iter().map(|effect| effect.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl<S: Send + Sync + 'static, W: RunsWith<S>> IntoFuture for CrashEverywhere<S, W> {
    type Output = Result<Survived, TestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<S, W: RunsWith<S>> fmt::Debug for CrashEverywhere<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashEverywhere").field("workflow", &W::NAME).finish_non_exhaustive()
    }
}
