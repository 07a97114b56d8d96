//! Answers to the waits of a run: approvals, decisions and events.

use serde_json::{Value, json};
use workflow_flows::FlowRuntime;
use workflow_flows::graph::{Flow, Kind};
use workflow_sdk::{AttemptStatus, StepAttempt, StepKind, Timestamp};
use workflow_testing::{TestEnv, TestError, TestRun};

use super::runtime::Desk;
use super::stub::{Answer, step_id};

/// The account that decides where a stub names none.
const NAME: &str = "dry-run";

/// The prefix of the signal that answers a decision.
const DECISION: &str = "decision:";

/// A wait of the run for something that only the outside gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// An approval, by its key.
    Approval(String),
    /// A decision, by the key of its record.
    Decision { key: String, signal: String },
    /// An event, by the key of its record.
    Event { key: String, name: String, of: String },
}

/// An answer and the time at which it is given.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) wait: Wait,
    pub(super) at: Timestamp,
    value: Value,
}

/// Returns the waits that are open in this history.
pub(super) fn open_waits(history: &[StepAttempt]) -> Vec<Wait> {
    history.iter().filter(|row| row.status == AttemptStatus::Running).filter_map(wait_of).collect()
}

fn wait_of(row: &StepAttempt) -> Option<Wait> {
    let key = row.step_key.clone();
    match row.kind {
        StepKind::Approval => Some(Wait::Approval(key)),
        StepKind::Signal => {
            let at = key.find(DECISION)?;
            // A repeated wait has a number at its end, which is no part of the signal's name.
            let signal = key[at..].trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(':').to_owned();
            Some(Wait::Decision { key, signal })
        }
        StepKind::Event => {
            let note: Value = serde_json::from_str(row.output.as_deref()?).ok()?;
            let text = |part: &str| note["event"][part].as_str().map(str::to_owned);
            Some(Wait::Event { key, name: text("name")?, of: text("key")? })
        }
        _ => None,
    }
}

impl Wait {
    /// Returns the key of the record.
    fn key(&self) -> &str {
        match self {
            Self::Approval(key) | Self::Decision { key, .. } | Self::Event { key, .. } => key,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Approval(_) => "approval",
            Self::Decision { .. } => "decision",
            Self::Event { .. } => "event",
        }
    }

    /// Returns the key of the step's record.
    fn step(&self) -> &str {
        match self {
            Self::Approval(key) => key,
            Self::Decision { signal, .. } => signal.strip_prefix(DECISION).unwrap_or(signal),
            // The scope of the step is the place of its event.
            Self::Event { key, .. } => key.rsplit_once('/').map_or(key, |(step, _)| step),
        }
    }
}

impl Due {
    /// Returns the answer to a wait: its stub, or an example unless stubs are required.
    pub(super) fn of(wait: Wait, flow: &Flow, desk: &Desk, now: Timestamp) -> Option<Self> {
        let step = wait.step().to_owned();
        let number = desk.count(format!("step {step}"));
        // An event that does not match is awaited again. The same example would not match either.
        let has_example = !desk.is_strict() && (number == 0 || !matches!(wait, Wait::Event { .. }));
        let example = has_example.then(|| Answer::of(example(&wait, &step, flow, desk)));
        let answer = desk.stubs().of_step(&step, number).cloned().or(example)?;
        let value = answer.outcome().ok()?;
        Some(Self { wait, at: now + answer.delay()?, value })
    }

    /// Gives the answer.
    pub(super) async fn give(
        self,
        env: &TestEnv<FlowRuntime>,
        run: &TestRun<Value>,
        desk: &Desk,
    ) -> Result<(), TestError> {
        let Self { wait, value, .. } = self;
        desk.note(wait.key().to_owned(), wait.kind(), &value);
        match wait {
            Wait::Approval(key) => {
                let client = env.client().await?;
                let by = value["by"].as_str().unwrap_or(NAME);
                let decision = match value["approved"] == json!(false) {
                    true => client.reject(run.id(), &key, by),
                    false => client.approve(run.id(), &key, by),
                };
                let note = value["note"].as_str();
                let sent = match note {
                    Some(note) => decision.note(note).await,
                    None => decision.await,
                };
                sent?;
            }
            Wait::Decision { signal, .. } => drop(run.signal(signal.as_str(), &chosen(&value)).await?),
            Wait::Event { name, of, .. } => drop(run.emit(name.as_str(), &of, &value).await?),
        }
        env.settle().await
    }
}

/// Returns the payload of a decision. A stub may give the choice alone.
fn chosen(value: &Value) -> Value {
    if value.get("choice").is_some() {
        return value.clone();
    }
    json!({ "choice": value, "by": NAME })
}

fn example(wait: &Wait, step: &str, flow: &Flow, desk: &Desk) -> Value {
    match wait {
        Wait::Approval(_) => json!({ "approved": true }),
        Wait::Decision { .. } => {
            let mut choice = None;
            flow.for_each_step(|one| {
                if let (true, Kind::Decision(decision)) = (one.id == step_id(step), &one.kind) {
                    choice = decision.fallback.clone().or_else(|| decision.options.keys().next().cloned());
                }
            });
            json!({ "choice": choice.map_or(Value::Null, Value::String) })
        }
        Wait::Event { .. } => desk.placeholder(step_id(step)),
    }
}
