//! Dry runs of flows: a flow runs in virtual time, and stubs stand for all that it calls.

mod answer;
mod example;
mod report;
mod runtime;
mod stub;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use workflow_flows::graph::{Flow, Kind, OnTimeout};
use workflow_flows::{FlowClient, FlowError, FlowRuntime, FlowStart, FlowStoreError, flow};
use workflow_sdk::{Client, ClientError, RunStatus, StepAttempt, Timestamp};
use workflow_testing::{TestEnv, TestError, TestRun};

pub(crate) use report::{Row, lines, rows};
pub(crate) use runtime::Call;
pub(crate) use stub::Stubs;

use answer::{Due, open_waits};
use runtime::{Desk, stub_runtime, with_stubs};

/// The most answers and advances of virtual time. A flow that needs more counts as one without end.
const MOST_TURNS: u32 = 100_000;

/// The least and the most virtual time that passes at once while a body waits for time.
const MOMENT: Duration = Duration::from_secs(1);
const LONG_MOMENT: Duration = Duration::from_secs(3600);

/// A run of a flow with stubs.
#[derive(Debug)]
pub(crate) struct DryRun {
    pub(crate) flow: Flow,
    pub(crate) input: Value,
    pub(crate) actor: String,
    pub(crate) stubs: Stubs,
    /// Whether calls and waits without a stub fail. Otherwise examples answer them.
    pub(crate) is_strict: bool,
}

/// The end of a dry run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Result<Value, Fault>,
    pub(crate) calls: Vec<Call>,
    pub(crate) history: Vec<StepAttempt>,
    /// The ids of the steps that run jq.
    pub(crate) programs: BTreeSet<String>,
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
}

/// The reason why a dry run has no output.
#[derive(Debug)]
pub(crate) enum Fault {
    Failed(FlowError),
    /// The run was canceled, or failed in the engine.
    Other(String),
    /// Nothing answers the run any more.
    Waits(String),
}

impl DryRun {
    /// Runs the flow to its end, or until nothing answers it.
    ///
    /// # Errors
    /// A [`TestError`] of the kit: a bug, or a flow that has no end.
    pub(crate) async fn run(self) -> Result<Ended, TestError> {
        let Self { flow: definition, input, actor, stubs, is_strict } = self;
        let definition = with_stubs(definition);
        let desk = Arc::new(Desk::new(&definition, stubs, is_strict));
        let runtime = stub_runtime(&definition, &desk);
        let deadline = (definition.on_timeout == OnTimeout::Fail).then_some(definition.timeout);
        let env = TestEnv::with_state(move || runtime.clone()).register(flow).await?;
        let limits = env.client().await?;
        set_limits(&limits, &definition).await?;
        let start = FlowStart::new(definition.clone()).input(input).actor(actor);
        let started = env.start(flow, start).with(move |start| match deadline {
            Some(deadline) => start.deadline(deadline),
            None => start,
        });
        let run = started.await?;
        let stuck = answer_all(&env, &run, &definition, &desk).await?;
        let outcome = match stuck {
            Some(waits) => Err(Fault::Waits(waits)),
            None => outcome(run.result().await)?,
        };
        let record = run.run().await?;
        let ended = record.completed_at.unwrap_or_else(|| env.now());
        Ok(Ended {
            outcome,
            calls: desk.calls(),
            history: run.history().await?,
            programs: programs(&definition),
            began: record.created_at,
            took: ended.since(record.created_at),
        })
    }
}

/// Returns the ids of the steps that run jq.
fn programs(flow: &Flow) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    flow.for_each_step(|step| {
        if matches!(step.kind, Kind::Jq(_)) {
            found.insert(step.id.clone());
        }
    });
    found
}

async fn set_limits(client: &Client, flow: &Flow) -> Result<(), TestError> {
    match client.set_limits(flow).await {
        Ok(()) => Ok(()),
        Err(FlowStoreError::Client(error)) => Err(error.into()),
        Err(other) => Err(TestError::Worker { reason: other.to_string() }),
    }
}

fn outcome(ended: Result<Value, TestError>) -> Result<Result<Value, Fault>, TestError> {
    match ended {
        Ok(output) => Ok(Ok(output)),
        Err(TestError::Client(ClientError::RunFailed { error, .. })) => {
            let other = || Fault::Other(error.message.clone());
            Ok(Err(error.downcast().map_or_else(other, Fault::Failed)))
        }
        Err(TestError::Client(error @ ClientError::RunCanceled { .. })) => Ok(Err(Fault::Other(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Answers the waits of the run and lets time pass until it ends. Returns what it waits for in
/// vain.
async fn answer_all(
    env: &TestEnv<FlowRuntime>,
    run: &TestRun<Value>,
    flow: &Flow,
    desk: &Desk,
) -> Result<Option<String>, TestError> {
    let mut due: Vec<Due> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut moment = MOMENT;
    for _ in 0..MOST_TURNS {
        let record = run.run().await?;
        if record.status.is_terminal() {
            return Ok(None);
        }
        let open = open_waits(&run.history().await?);
        due.retain(|due| open.contains(&due.wait));
        for wait in open {
            if seen.insert(wait.clone()) {
                due.extend(Due::of(wait, flow, desk, env.now()));
            }
        }
        due.sort_by_key(|due| due.at);
        let wakes = (record.status != RunStatus::Running).then_some(record.available_at);
        let wakes = wakes.filter(|at| *at < Timestamp::FAR_FUTURE && record.paused_at.is_none());
        let first = due.first().map(|due| due.at);
        match [first, wakes].into_iter().flatten().min() {
            Some(at) if at > env.now() => env.advance(at.since(env.now())).await?,
            Some(at) if first == Some(at) => due.remove(0).give(env, run, desk).await?,
            Some(_) => env.advance(Duration::from_millis(1)).await?,
            None if record.status == RunStatus::Running => {
                env.advance(moment).await?;
                moment = (moment * 2).min(LONG_MOMENT);
                continue;
            }
            None => return Ok(Some(run.waits_for().await?)),
        }
        moment = MOMENT;
    }
    let waits_for = run.waits_for().await?;
    Err(TestError::TooLong { run: run.id(), now: env.now().to_string(), waits_for })
}
