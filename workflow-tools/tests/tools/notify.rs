use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::signature::{TOLERANCE, Webhook as Signed};
use workflow_flows::token::Tokens;
use workflow_flows::{ErrorClass, FlowClient, FlowDocument, FlowRuntime, FlowStart, ToolError, flow};
use workflow_sdk::StepAttempt;
use workflow_tests::{Database, Live, LocalWorker, until};
use workflow_tools::http::Http;
use workflow_tools::notify::{InApp, Inbox, Notice, Pushover, Webhook};

use crate::call;
use crate::stub::{Reply, Stub};

fn http() -> Http {
    Http::builder().allow_network("127.0.0.1".parse().unwrap()).build().unwrap()
}

#[tokio::test]
async fn a_webhook_is_signed() {
    let stub = Stub::start(|_| Reply::new("204 No Content", "", "")).await;
    let webhook = Webhook::builder("secret").target("ops", stub.url("/hook")).http(http()).build().unwrap();
    call(&webhook, json!({ "to": "ops", "title": "T", "text": "hi", "data": { "n": 1 } })).await.unwrap();
    let request = stub.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    assert_eq!(header("webhook-id"), "run-1/charge");
    let timestamp: u64 = header("webhook-timestamp").parse().unwrap();
    let signed = Signed { id: header("webhook-id"), timestamp, body: body.as_bytes() };
    assert_eq!(signed.verify(&[b"secret"], header("webhook-signature"), timestamp, TOLERANCE), Ok(()));
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body, json!({ "to": "ops", "title": "T", "text": "hi", "data": { "n": 1 }, "actor": "ann" }));
    let error = call(&webhook, json!({ "to": "other", "text": "hi" })).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Invalid);
    assert!(call(&webhook, json!({ "to": "ops", "text": "x".repeat(100_000) })).await.is_err());
}

#[tokio::test]
async fn the_path_of_a_webhook_stands_in_no_error() {
    let stub = Stub::start(|request| Reply::new("404 Not Found", "", request.lines().next().unwrap())).await;
    let webhook = Webhook::builder("secret").target("ops", stub.url("/T1/hunter2?k=hunter3")).http(http());
    let error = call(&webhook.build().unwrap(), json!({ "to": "ops", "text": "hi" })).await.unwrap_err();
    assert!(error.message.contains("404: POST") && !error.message.contains("hunter"), "{error}");
}

#[tokio::test]
async fn pushover_gets_its_form_and_its_keys_stand_in_no_error() {
    let stub = Stub::start(|request| {
        if request.contains("fail") {
            Reply::new(
                "400 Bad Request",
                "",
                "{\"user\":\"ukey-hunter2\",\"token\":\"hunter3\",\"errors\":[\"user is invalid\"],\"status\":0}",
            )
        } else {
            Reply::json("{\"status\":1,\"request\":\"r-1\"}")
        }
    })
    .await;
    let builder = Pushover::builder("hunter3").user("", "ukey-hunter2").url(stub.url("/1/messages.json"));
    let pushover = builder.http(http()).build().unwrap();
    let sent = call(&pushover, json!({ "title": "T", "text": "é".repeat(2_000) })).await.unwrap();
    assert_eq!(sent, json!({ "request": "r-1" }));
    let body = stub.requests().remove(0).split_once("\r\n\r\n").unwrap().1.to_owned();
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["user"], body["message"].as_str().unwrap().chars().count()), (&json!("ukey-hunter2"), 1_024));
    let error = call(&pushover, json!({ "text": "fail" })).await.unwrap_err();
    assert!(error.message.contains("user is invalid") && !error.message.contains("hunter"), "{error}");
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(String, String, Notice)>>>);

#[async_trait]
impl Inbox for Kept {
    async fn put(&self, actor: &str, key: &str, notice: Notice) -> Result<(), ToolError> {
        self.0.lock().unwrap().push((actor.to_owned(), key.to_owned(), notice));
        Ok(())
    }
}

#[tokio::test]
async fn a_message_reaches_the_inbox_of_the_application() {
    let kept = Kept::default();
    call(&InApp::new(kept.clone()), json!({ "to": "ops", "text": "hi" })).await.unwrap();
    let mut notice = Notice::new("hi");
    notice.to = "ops".to_owned();
    assert_eq!(*kept.0.lock().unwrap(), [("ann".to_owned(), "run-1/charge".to_owned(), notice)]);
}

/// An approval, and a handoff after it, tell their receivers through all channels.
async fn receivers_are_told(db: &Live) {
    const FLOW: &str = "flow: 1\nname: tells\ndo:\n  - { id: gate, approval: { to: [ops, \"{{input.owner}}\"], title: \
                        \"Ship {{input.id}}?\", show: { total: \"{{input.total}}\" }, notify: [in-app, webhook, pushover] } }\n  - \
                        { id: told, handoff: { to: ops, text: \"{{input.id}}\", via: [in-app, webhook, pushover] } }\n";
    let stub = Stub::start(|_| Reply::json("{\"status\":1,\"request\":\"r-1\"}")).await;
    let kept = Kept::default();
    let webhook = Webhook::builder("secret").target("ops", stub.url("/hook")).target("bob", stub.url("/hook"));
    let pushover = Pushover::builder("app").user("ops", "u-ops").user("bob", "u-bob").url(stub.url("/push"));
    let runtime = FlowRuntime::builder()
        .tokens(Tokens::new(b"a secret of tokens, of 32 bytes at least").unwrap())
        .custom_tool(InApp::new(kept.clone()))
        .custom_tool(webhook.http(http()).build().unwrap())
        .custom_tool(pushover.http(http()).build().unwrap())
        .build();
    let document = FlowDocument::new(FLOW);
    let checked = document.check_connected(&runtime, "ann").await.unwrap();
    let start = FlowStart::new(checked.flow.expect("the flow is valid")).actor("ann");
    let start = start.input(json!({ "id": 7, "total": 12, "owner": "bob" }));
    let worker = LocalWorker::start(db.worker(runtime).register(flow));
    let run = db.client.start_definition(start).await.unwrap();
    let told = |row: &StepAttempt| row.step_key == "gate.told" && row.output.is_some();
    until("all are told", async || run.history().await.unwrap().iter().any(told).then_some(())).await;

    let (id, text) = (run.id().to_string(), "The step \"gate\" of the run ");
    let text = format!("Ship 7?\n{text}{id} waits for an answer.\ntotal: 12");
    let message = |to: &str| {
        let data = json!({ "show": { "total": 12 }, "run": id, "key": "gate" });
        json!({ "to": to, "title": "Ship 7?", "text": text, "data": data })
    };
    let shown: Vec<Value> =
        kept.0.lock().unwrap().iter().map(|(_, _, notice)| serde_json::to_value(notice).unwrap()).collect();
    assert_eq!(shown, [message("ops"), message("bob")], "without the token");
    let keys: std::collections::BTreeSet<String> = kept.0.lock().unwrap().iter().map(|it| it.1.clone()).collect();
    assert_eq!(keys.len(), 2, "an inbox keeps one message per key: {keys:?}");
    let bodies = || -> Vec<(String, Value)> {
        let read = |request: &String| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
        };
        stub.requests().iter().map(read).collect()
    };
    let sent = bodies();
    let paths: Vec<&str> = sent.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/hook", "/push", "/hook", "/push"]);
    let token = sent[0].1["data"]["token"].as_str().unwrap();
    let mut expected = message("ops");
    (expected["actor"], expected["data"]["token"]) = ("ann".into(), token.into());
    assert!(token.starts_with("st_") && sent[0].1 == expected, "{:?}", sent[0]);
    assert_eq!((&sent[3].1["user"], &sent[3].1["message"]), (&json!("u-bob"), &json!(text)));

    db.client.approve(run.id(), "gate", "bob").await.unwrap();
    run.result().await.unwrap();
    assert_eq!(kept.0.lock().unwrap()[2].2.text, "7", "a number is a text in a message");
    assert_eq!(bodies()[4].1["text"], json!("7"));
    for row in run.history().await.unwrap() {
        let output = row.output.unwrap_or_default();
        assert!(!output.contains("not_told") && !output.contains("st_"), "{}: {output}", row.step_key);
    }
    worker.stop().await;
}

#[tokio::test]
async fn an_approval_and_a_handoff_tell_through_every_channel() {
    for database in [Database::Sqlite, Database::Postgres] {
        let live = Live::new(database).await;
        receivers_are_told(&live).await;
        live.sweep().await;
    }
}
