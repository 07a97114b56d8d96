use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use workflow_flows::signature::{TOLERANCE, Webhook as Signed};
use workflow_flows::{ErrorClass, ToolError};
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
