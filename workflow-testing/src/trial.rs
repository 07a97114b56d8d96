//! One run of a workflow to its end, in an env of its own, with or without a crash.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use workflow_sdk::{Client, DEFAULT_QUEUE, RunHistory, RunId, RunStatus, RunsWith, StoredError};

use super::TestError;
use super::commit_log::{Boundary, Commit, CommitLog, RanAgain};
use super::effects::Effect;
use super::env_config::{EnvConfig, nth_id};
use super::env_thread::EnvThread;
use super::outcome_keys::outcome_keys;
use super::process::Followed;

/// How the run of a trial ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    Succeeded(Value),
    Failed(Box<StoredError>),
    Canceled,
    Waits(String),
    Diverged(String),
    TooLong(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded(value) => write!(f, "succeeded with {value}"),
            Self::Failed(error) => write!(f, "failed ({}): {error}", error.kind),
            Self::Canceled => f.write_str("was canceled"),
            Self::Waits(what) => write!(f, "has not ended: {what}"),
            Self::Diverged(divergence) => write!(f, "diverged:\n{divergence}"),
            Self::TooLong(what) => write!(f, "runs without end: {what}"),
        }
    }
}

/// The result of a trial.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) ending: Ending,
    pub(super) effects: Vec<Effect>,
    pub(super) commits: Vec<Commit>,
    pub(super) died_at: Option<Boundary>,
    pub(super) ran_again: Option<RanAgain>,
    pub(super) history: RunHistory,
}

impl Trial {
    pub(super) fn order(&self) -> Vec<String> {
        outcome_keys(&self.history.steps)
    }
}

/// The input of every trial.
#[derive(Clone, Debug)]
pub(super) struct TrialInput {
    pub(super) input: Value,
    /// The names and payloads of signals that are sent after the start.
    pub(super) signals: Vec<(String, Value)>,
}

/// Runs a trial. Returns its result and the state of its env.
pub(super) async fn run_trial<S, W>(
    config: &Arc<EnvConfig<S>>,
    input: &TrialInput,
    log: CommitLog,
    seed: Option<u64>,
) -> Result<(Trial, Arc<S>), TestError>
where
    S: Send + Sync + 'static,
    W: RunsWith<S>,
{
    config.check::<W>()?;
    let (thread, state) = config.start_thread(log, seed)?;
    let id = start::<S, W>(config, &thread, &input.input).await?;
    for (number, (name, payload)) in input.signals.iter().enumerate() {
        let (name, payload) = (name.clone(), payload.clone());
        let send = move |client: &Client| client.signal(id, name.as_str(), &payload).key(number.to_string());
        ask_until_answered(&thread, send).await?;
    }
    let followed = loop {
        match thread.call(move |process| async move { process.follow(id).await }).await {
            Err(TestError::Crashed) => {}
            followed => break followed?,
        }
    };
    let trial = result_of(&thread, id, followed).await?;
    Ok((trial, state))
}

async fn start<S, W: RunsWith<S>>(
    config: &EnvConfig<S>,
    thread: &EnvThread,
    input: &Value,
) -> Result<RunId, TestError> {
    let id = nth_id(config.start, 0).unwrap_or_else(RunId::generate);
    let input = input.clone();
    // An input that does not decode has no gate, and its run fails.
    let gate = serde_json::from_value::<W::Input>(input.clone()).ok().and_then(|input| W::gate(&input));
    let start = move |client: &Client| {
        let start = client.start_by_name(W::NAME, &input).version(W::VERSION).id(id).key("trial");
        let start = start.queue(W::QUEUE.unwrap_or(DEFAULT_QUEUE));
        match &gate {
            Some(gate) => start.gate(gate),
            None => start,
        }
    };
    ask_until_answered(thread, start).await?;
    Ok(id)
}

/// Asks the client, and the next client if the first one dies, like an application that got no
/// answer.
async fn ask_until_answered<F, T>(
    thread: &EnvThread,
    ask: impl Fn(&Client) -> F + Clone + Send + 'static,
) -> Result<T, TestError>
where
    F: IntoFuture<Output = Result<T, workflow_sdk::ClientError>>,
    F::IntoFuture: Send + 'static,
    T: Send + 'static,
{
    loop {
        let ask = ask.clone();
        let asked = thread.call(move |process| async move {
            let answer = ask(&process.client).into_future().await;
            process.settle().await;
            answer
        });
        match asked.await {
            Err(TestError::Crashed) => {}
            answer => return Ok(answer??),
        }
    }
}

async fn result_of(thread: &EnvThread, id: RunId, followed: Followed) -> Result<Trial, TestError> {
    let found = thread.call(move |process| async move {
        let explained = process.client.explain(id).await?;
        let history = process.client.export(id).await?;
        Ok::<_, workflow_sdk::ClientError>((explained.to_string(), history))
    });
    let (explained, history) = found.await??;
    let ending = match followed {
        Followed::StandsStill => Ending::Waits(explained),
        Followed::Diverged(divergence) => Ending::Diverged(divergence),
        Followed::TooLong => Ending::TooLong(explained),
        Followed::Ended => ending_of(&history),
    };
    let surroundings = &thread.surroundings;
    Ok(Trial {
        ending,
        effects: surroundings.ledger.effects(),
        commits: surroundings.log.commits(),
        died_at: surroundings.log.died_at(),
        ran_again: surroundings.log.ran_again(),
        history,
    })
}

fn ending_of(history: &RunHistory) -> Ending {
    let run = &history.run;
    match (run.status, &run.error) {
        (RunStatus::Canceled, _) => Ending::Canceled,
        (RunStatus::Failed, Some(error)) => Ending::Failed(Box::new(error.clone())),
        _ => {
            let output = run.output.as_deref().unwrap_or("null");
            Ending::Succeeded(serde_json::from_str(output).unwrap_or(Value::Null))
        }
    }
}
