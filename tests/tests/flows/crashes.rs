//! Flows whose worker is a process that is killed at each of its commits, one after the other.

use std::collections::BTreeMap;
use std::path::Path;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowError, FlowStart};
use workflow_sdk::{ClientError, RunHandle};
use workflow_tests::{Live, until};

use crate::common::{echo, step, steps, tool, with};
use crate::process::Process;

/// Each flow with its name. The worker knows the flow `child`.
fn flows() -> Vec<(&'static str, Flow)> {
    let undone = |id: &str| {
        with(
            echo(id, json!("{{input.n}}")),
            json!({ "undo": { "tool": "echo", "args": format!("{{{{steps.{id}}}}}") } }),
        )
    };
    let items = json!({
        "until": { "for": "{{input.list}}" }, "max": 9, "concurrency": 2, "body": { "do": [echo("x", json!("{{item}}"))] },
    });
    let turns = json!({
        "until": { "until": "result == 1" }, "max": 9, "every": 5, "concurrency": 1,
        "body": { "do": [echo("turn", json!("{{index}}"))] },
    });
    let both = json!({ "branches": [
        ["a", { "do": [echo("one", json!(1)), echo("two", json!("{{steps.one + 1}}"))] }],
        ["b", { "do": [echo("three", json!(3))] }],
    ] });
    let first = json!({ "mode": "race", "branches": [
        ["quick", { "do": [echo("q", json!("{{input.n}}"))] }],
        ["slow", { "do": [step("nap", json!({ "wait": { "for": 3_600_000 } }))] }],
    ] });
    vec![
        ("tool", steps(json!([echo("a", json!("{{input.n + 1}}")), echo("b", json!({ "a": "{{steps.a}}" }))]))),
        ("parallel", steps(json!([step("fan", json!({ "parallel": both })), echo("end", json!("{{steps.fan}}"))]))),
        ("race", steps(json!([step("fan", json!({ "parallel": first })), echo("end", json!("{{steps.fan}}"))]))),
        (
            "approval",
            steps(json!([
                step("gate", json!({ "approval": { "to": ["ops"], "title": "n is {{input.n}}" } })),
                echo("end", json!("{{steps.gate.by}}")),
            ])),
        ),
        ("loop", steps(json!([step("each", json!({ "loop": items })), step("again", json!({ "loop": turns }))]))),
        (
            "undo",
            steps(json!([undone("a"), undone("b"), tool("c", "fail", json!({ "message": "{{input.n}} fails" }))])),
        ),
        (
            "sub-flow",
            steps(json!([
                step("sub", json!({ "flow": { "name": "child", "args": "{{input.n}}" } })),
                echo("end", json!("{{steps.sub}}")),
            ])),
        ),
        (
            "retry",
            steps(json!([
                with(
                    tool("f", "flaky", json!("{{input.n}}")),
                    json!({ "retry": { "attempts": 3, "backoff": { "constant": { "delay": 5 } } } }),
                ),
                echo("end", json!("{{steps.f}}")),
            ])),
        ),
    ]
}

/// One run of a flow.
struct Trial {
    /// Whether its worker died before its end.
    was_cut: bool,
    /// The output, or the text of the error.
    ending: Result<Value, String>,
    /// The calls of each step.
    calls: BTreeMap<String, u32>,
}

/// The runs of one flow in a database of its own.
struct Trials {
    live: Live,
    flow: Flow,
    files: TempDir,
}

impl Trials {
    /// Runs the flow. If the worker dies, another one goes on.
    async fn run(&self, failpoint: Option<&str>) -> Trial {
        let calls = self.files.path().join(failpoint.unwrap_or("whole"));
        let input = json!({ "n": 3, "list": [1, 2] });
        let start = FlowStart::new(self.flow.clone()).input(input).actor("ann");
        let run = self.live.client.start_definition(start).await.unwrap();
        let mut worker = self.spawn(&calls, failpoint);
        let died_or_ended = async || {
            let has_died = worker.has_died();
            (has_died || self.has_ended(&run).await).then_some(())
        };
        until("the worker dies or the run ends", died_or_ended).await;
        let was_cut = !run.status().await.unwrap().is_terminal();
        if was_cut {
            worker = self.spawn(&calls, None);
            until("the next worker ends the run", async || self.has_ended(&run).await.then_some(())).await;
        }
        let ending = ending(&run).await;
        drop(worker);
        Trial { was_cut, ending, calls: counted(&calls) }
    }

    fn spawn(&self, calls: &Path, failpoint: Option<&str>) -> Process {
        let (url, schema) = (self.live.url(), self.live.schema().unwrap_or_default());
        Process::spawn(env!("CARGO_BIN_EXE_flow_worker"), [&url, schema, calls.to_str().unwrap()], failpoint)
    }

    /// Returns whether the run has ended. Approves what it asks for.
    async fn has_ended(&self, run: &RunHandle<Value>) -> bool {
        for asked in self.live.client.approvals_of(run.id()).await.unwrap() {
            self.live.client.approve(run.id(), &asked.key, "ops").await.unwrap();
        }
        run.status().await.unwrap().is_terminal()
    }
}

async fn ending(run: &RunHandle<Value>) -> Result<Value, String> {
    match run.result().await {
        Ok(output) => Ok(output),
        Err(ClientError::RunFailed { error, .. }) => Err(error.downcast::<FlowError>().unwrap().to_string()),
        Err(other) => panic!("{other}"),
    }
}

/// Counts the lines of a file by the part behind the id of their run.
fn counted(calls: &Path) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(calls).unwrap_or_default();
    text.lines().fold(BTreeMap::new(), |mut counts, line| {
        let (_, step) = line.split_once('/').unwrap();
        *counts.entry(step.to_owned()).or_default() += 1;
        counts
    })
}

/// Kills the worker at its first commit, in the next run at its second one, and so on, until a run
/// ends before the kill.
async fn survives(trials: &Trials, name: &str, point: &str, whole: &Trial) {
    let mut cuts = 0;
    for number in 1.. {
        let failpoint = format!("{point}@{number}");
        let trial = trials.run(Some(&failpoint)).await;
        assert_eq!(trial.ending, whole.ending, "{name}: {failpoint}");
        assert!(trial.calls.keys().eq(whole.calls.keys()), "{name}: {failpoint}: {:?}", trial.calls);
        for (step, calls) in &trial.calls {
            let most = whole.calls[step] + u32::from(trial.was_cut);
            assert!(*calls <= most, "{name}: {failpoint}: {step} was called {calls} times, {most} are allowed");
        }
        if !trial.was_cut {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= 2, "{name}: a claim and a record at least, and {cuts} cuts at {point}");
}

/// The output and the error are those of a run without a death. No step is called more often than
/// there, but for the call that the death cut off.
pub async fn a_process_killed_at_each_commit_changes_no_flow(db: Live) {
    let each = |(name, flow): (&'static str, Flow)| {
        let database = db.database;
        async move {
            let trials = Trials { live: Live::new(database).await, flow, files: tempfile::tempdir().unwrap() };
            let whole = trials.run(None).await;
            assert!(!whole.was_cut && whole.ending.is_err() == (name == "undo"), "{name}: {:?}", whole.ending);
            survives(&trials, name, "executor.before_commit", &whole).await;
            // After a commit the state is that before the next one, without the bodies between.
            if ["tool", "undo"].contains(&name) {
                survives(&trials, name, "executor.after_commit", &whole).await;
            }
            trials.live.sweep().await;
        }
    };
    stream::iter(flows()).for_each_concurrent(4, each).await;
}
