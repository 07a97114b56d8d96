//! Calls that are refused: each with a code, and nothing is changed.

use serde_json::{Value, json};
use workflow_sdk::RunId;
use workflow_sdk::operate::ListRuns;
use workflow_tests::{Database, Live};

use super::client::Agent;
use super::unique;

const DOCUMENT: &str = "flow: 1\nname: a\ninput: { required: [id] }\ndo: [ { id: a, set: { x: 1 } } ]\n";

async fn calls_are_refused_with_a_code(database: Database) {
    let live = Live::new(database).await;
    let agent = Agent::over_stdio(&live, &[]).await;
    let unknown = RunId::generate().to_string();
    let run = live.client.start_by_name("nothing", &Value::Null).await.unwrap().id().to_string();
    let large = format!("{DOCUMENT}# {}\n", "x".repeat(256 * 1024));
    let long = "x".repeat(300);
    for (tool, arguments, code) in [
        ("flow_check", json!({}), "bad_input"),
        ("flow_check", json!({ "document": 5 }), "bad_input"),
        ("flow_check", json!({ "document": DOCUMENT, "dialekt": "native" }), "bad_input"),
        ("flow_check", json!({ "document": DOCUMENT, "dialect": "yaml" }), "bad_input"),
        ("flow_deploy", json!({ "document": "flow: 1" }), "invalid_flow"),
        ("flow_deploy", json!({ "document": large }), "invalid_flow"),
        ("flow_deploy", json!({ "document": DOCUMENT, "name": "b" }), "bad_input"),
        ("flow_list", json!({ "name": unique("none") }), "not_found"),
        ("flow_list", json!({ "limit": 0 }), "bad_limit"),
        ("flow_list", json!({ "limit": 201 }), "bad_limit"),
        ("flow_list", json!({ "limit": -1 }), "bad_input"),
        ("flow_list", json!({ "after": unique("none") }), "bad_cursor"),
        ("run_start", json!({}), "bad_input"),
        ("run_start", json!({ "flow": "a", "workflow": "b" }), "bad_input"),
        ("run_start", json!({ "document": DOCUMENT, "version": "1" }), "bad_input"),
        ("run_start", json!({ "workflow": "a", "dialect": "native" }), "bad_input"),
        ("run_start", json!({ "flow": "a", "name": "a" }), "bad_input"),
        ("run_start", json!({ "workflow": "a", "name": "a" }), "bad_input"),
        ("run_start", json!({ "document": DOCUMENT, "name": "b", "input": { "id": 1 } }), "bad_input"),
        ("run_start", json!({ "flow": unique("none") }), "not_found"),
        ("run_start", json!({ "document": "flow: 1" }), "invalid_flow"),
        ("run_start", json!({ "document": DOCUMENT, "input": {} }), "invalid_input"),
        ("run_start", json!({ "document": DOCUMENT, "input": { "id": 1 }, "key": long }), "bad_input"),
        ("run_start", json!({ "workflow": "" }), "bad_input"),
        ("run_start", json!({ "workflow": "flow", "input": { "actor": "root" } }), "bad_input"),
        ("run_status", json!({ "run": "x" }), "bad_input"),
        ("run_status", json!({ "run": unknown }), "not_found"),
        ("run_status", json!({ "run": run, "steps": 101 }), "bad_limit"),
        ("run_status", json!({ "run": run, "steps": 1, "after": "x" }), "bad_cursor"),
        ("run_list", json!({ "query": "status:faild" }), "bad_query"),
        ("run_list", json!({ "limit": 0 }), "bad_limit"),
        ("run_list", json!({ "limit": 201 }), "bad_limit"),
        ("run_list", json!({ "after": "x" }), "bad_cursor"),
        ("run_signal", json!({ "run": unknown, "name": "go" }), "not_found"),
        ("run_signal", json!({ "run": run, "name": "" }), "bad_input"),
        ("step_ready", json!({ "run": unknown, "step": "gate" }), "not_found"),
        ("step_ready", json!({ "run": run, "step": "gate", "choice": "x" }), "conflict"),
        ("step_ready", json!({ "run": run, "step": "gate", "approved": "yes" }), "bad_input"),
        ("step_done", json!({ "run": unknown, "step": "gate", "result": 1 }), "not_found"),
        ("step_done", json!({ "run": run, "step": "gate", "result": 1 }), "conflict"),
        ("step_done", json!({ "run": run, "step": "gate" }), "bad_input"),
        ("run_cancel", json!({ "run": unknown }), "not_found"),
        ("run_retry", json!({ "run": run }), "conflict"),
        ("event_emit", json!({ "name": "paid" }), "bad_input"),
        ("event_emit", json!({ "name": "", "key": "1" }), "bad_input"),
    ] {
        let told = format!("{tool} {}", arguments.to_string().chars().take(200).collect::<String>());
        let error = agent.call(tool, arguments).await.expect_err(&told);
        assert_eq!(error["code"], code, "{told}: {error}");
        assert!(
            !error["message"].as_str().unwrap().is_empty() && !error["help"].as_str().unwrap().is_empty(),
            "{told}"
        );
    }
    assert!(agent.call("run_delete", json!({})).await.unwrap_err()["message"].as_str().unwrap().contains("run_delete"));
    for uri in ["run://x", "flow://nothing", "file:///etc/passwd", &format!("run://{unknown}")] {
        assert!(agent.read(uri).await.unwrap_err().contains("code"), "{uri}");
    }
    assert_eq!(live.client.operate().runs(ListRuns::default()).await.unwrap().items.len(), 1, "nothing was started");

    let large = json!({ "document": "x".repeat(2 * 1024 * 1024) });
    let late = tokio::time::timeout(std::time::Duration::from_secs(2), agent.call("flow_check", large)).await;
    assert!(late.is_err() || late.unwrap().is_err(), "a message that is too large has no effect");
    assert!(agent.call("run_list", json!({})).await.is_ok(), "and the session goes on");
    agent.leave().await;
    live.sweep().await;
}

#[tokio::test]
async fn calls_are_refused_with_a_code_on_sqlite() {
    calls_are_refused_with_a_code(Database::Sqlite).await;
}

#[tokio::test]
async fn calls_are_refused_with_a_code_on_postgres() {
    calls_are_refused_with_a_code(Database::Postgres).await;
}

/// Each schema describes an object and its fields, so that an agent needs no other documents.
#[tokio::test]
async fn every_tool_describes_its_arguments_and_answers() {
    let live = Live::new(Database::Sqlite).await;
    let agent = Agent::over_stdio(&live, &[]).await;
    assert_eq!(agent.tools().len(), 12);
    for (name, tool) in agent.tools() {
        let input = Value::Object(tool.input_schema.as_ref().clone());
        let output = Value::Object(tool.output_schema.as_ref().unwrap().as_ref().clone());
        assert!(tool.description.as_ref().is_some_and(|text| text.len() > 40), "{name}");
        assert!(tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint.is_some()), "{name}");
        assert_eq!(input["additionalProperties"], json!(false), "{name}");
        for schema in [&input, &output] {
            assert!(schema["type"] == "object" && !schema.to_string().contains("$ref"), "{name}: {schema}");
            for (field, described) in schema["properties"].as_object().unwrap() {
                assert!(described["description"].is_string(), "{name}.{field}: {described}");
            }
        }
        let size = input.to_string().len() + output.to_string().len();
        assert!(size < 8 * 1024, "{name}: {size} bytes");
    }
    agent.leave().await;
    live.sweep().await;
}
