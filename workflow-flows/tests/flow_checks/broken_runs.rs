//! Each document of `tests/broken_runs` is valid, and its run fails. Its first line names the code
//! and the step of the failure. The document beside it shows the repair, and the output of its run.

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::check::{Options, check};
use workflow_flows::{FlowError, FlowStart, Model, ModelAnswer, ModelCall, ToolError};
use workflow_sdk::ClientError;
use workflow_testing::TestError;

use crate::common::{InPlace, begin, env_with, runtime};
use crate::{file, files, told};

/// Answers wrongly until it is asked to repair the answer.
struct Hasty;

#[async_trait]
impl Model for Hasty {
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError> {
        let mut answer = ModelAnswer::new(json!({ "ok": true }));
        if call.repair == 0 {
            answer.problems.push("/: ok is missing".to_owned());
        }
        Ok(answer)
    }
}

/// Returns the rest of the comment that begins with this word.
fn header<'s>(source: &'s str, word: &str) -> Option<&'s str> {
    source.lines().find_map(|line| Some(line.strip_prefix("# ")?.strip_prefix(word)?.trim()))
}

/// Runs a document. Returns its output, or the code and the step of its failure.
async fn ending(source: &str) -> Result<Value, String> {
    let checked = check(source, &Options::default());
    let flow = checked.flow.clone().unwrap_or_else(|| panic!("{source}\n{}", told(&checked)));
    let input: Value = header(source, "input").map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    if let Err(error) = FlowStart::new(flow.clone()).input(input.clone()).check_input() {
        return Err(error.message.split(':').next().unwrap().to_owned());
    }
    let (env, _) = env_with(|calls| runtime(calls).evaluator(InPlace::default()).model(Hasty).build()).await;
    let run = begin(&env, flow, input).await;
    if let Some(gate) = header(source, "rejects") {
        env.client().await.unwrap().reject(run.id(), gate, "ops").await.unwrap();
    }
    match run.finish().await {
        Ok(output) => Ok(output),
        Err(TestError::Client(ClientError::RunFailed { error, .. })) => {
            let error: FlowError = error.downcast().unwrap_or_else(|| panic!("{source}\n{error}"));
            Err(format!("{} at {}", error.code.as_str(), error.step))
        }
        Err(other) => panic!("{source}\n{other}"),
    }
}

#[tokio::test]
async fn each_document_fails_at_its_step() {
    let documents: Vec<String> = files("broken_runs").into_iter().filter(|name| !name.contains(".fixed.")).collect();
    let mut wrong = Vec::new();
    for name in &documents {
        let source = file(&format!("broken_runs/{name}"));
        let expected = header(&source, "error").unwrap_or_else(|| panic!("{name} names no error"));
        let ended = ending(&source).await;
        if ended != Err(expected.to_owned()) {
            wrong.push(format!("{name}: {ended:?} and not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} documents:\n{}", wrong.len(), documents.len(), wrong.join("\n"));
}

#[tokio::test]
async fn each_repaired_document_runs() {
    let mut wrong = Vec::new();
    for name in files("broken_runs").iter().filter(|name| !name.contains(".fixed.")) {
        let source = file(&format!("broken_runs/{}", name.replace(".yaml", ".fixed.yaml")));
        let output = header(&source, "output").unwrap_or_else(|| panic!("the repair of {name} names no output"));
        let ended = ending(&source).await;
        if ended != Ok(serde_json::from_str(output).unwrap()) {
            wrong.push(format!("{name}: {ended:?} and not {output}"));
        }
    }
    assert!(wrong.is_empty(), "{} documents:\n{}", wrong.len(), wrong.join("\n"));
}

// F223 has no document, because a run meets its limit only after very many decisions:
// `a_run_makes_as_many_decisions_as_its_worker_allows` shows it with a low limit.
#[test]
fn every_code_of_a_run_has_a_document() {
    let all: String = files("broken_runs").iter().map(|name| file(&format!("broken_runs/{name}"))).collect();
    for code in ["F060", "F220", "F221", "F222", "F230", "F231", "F240", "F241", "F250", "F251", "F260"] {
        assert!(all.contains(&format!("# error {code}")), "{code}");
    }
}
