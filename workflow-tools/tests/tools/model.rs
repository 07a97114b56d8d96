//! No model is asked here: a stub speaks the wire format of one.

use std::sync::Mutex;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::Arc;
use workflow_flows::{ErrorClass, Model, ModelCall};
use workflow_tools::http::Http;
use workflow_tools::model::ChatModel;

/// A server that gives these answers, one after the other, and keeps what it was asked.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<Vec<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

async fn complete(State(server): State<Server>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    server.asked.lock().unwrap().push((headers, body));
    let (status, answer) = server.answers.lock().unwrap().remove(0);
    (StatusCode::from_u16(status).unwrap(), [("retry-after", "3")], Json(answer)).into_response()
}

impl Server {
    async fn start(answers: impl IntoIterator<Item = (u16, Value)>) -> (Self, ChatModel) {
        let server = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), asked: Arc::default() };
        let router = axum::Router::new().route("/v1/chat/completions", post(complete)).with_state(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = Http::builder().allow_network("127.0.0.1".parse().unwrap()).timeout(Duration::from_secs(20)).build();
        let model = ChatModel::builder(base, "small-1").key("sk-hunter2").http(http.unwrap()).build().unwrap();
        (server, model)
    }

    fn asked(&self, at: usize) -> Value {
        self.asked.lock().unwrap()[at].1.clone()
    }
}

/// A completion in the form of the published interface.
fn completion(content: &str) -> (u16, Value) {
    let message = json!({ "role": "assistant", "content": content, "refusal": null, "annotations": [] });
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_741_569_952, "model": "small-1-2026",
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29 }, "service_tier": "default",
    });
    (200, body)
}

fn summary() -> Value {
    json!({ "type": "object", "required": ["summary"], "additionalProperties": false, "properties": { "summary": { "type": "string" } } })
}

fn recipe(repair: u32) -> ModelCall {
    let mut call = ModelCall::new("Summarize: long text");
    call.system = Some("You are brief.".to_owned());
    call.output = Some(summary());
    call.repair = repair;
    call
}

#[tokio::test]
async fn a_question_has_the_form_of_the_interface() {
    let (server, model) = Server::start([completion(r#"{"summary": "short"}"#)]).await;
    let mut call = recipe(0);
    call.max_tokens = Some(50);
    let answer = model.complete(call).await.unwrap();
    assert_eq!(answer.value, json!({ "summary": "short" }));
    assert_eq!((answer.model.as_str(), answer.input_tokens, answer.output_tokens), ("small-1-2026", 19, 10));
    assert_eq!((answer.calls, answer.problems.len()), (1, 0));
    let expected = json!({
        "model": "small-1", "max_tokens": 50,
        "messages": [{ "role": "system", "content": "You are brief." }, { "role": "user", "content": "Summarize: long text" }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "schema": summary(), "strict": true } },
    });
    assert_eq!(server.asked(0), expected);
    assert_eq!(server.asked.lock().unwrap()[0].0["authorization"], "Bearer sk-hunter2");
}

#[tokio::test]
async fn text_needs_no_schema() {
    let (server, model) = Server::start([completion("Hello.")]).await;
    let mut call = ModelCall::new("Greet.");
    call.model = Some("large-1".to_owned());
    assert_eq!(model.complete(call).await.unwrap().value, "Hello.");
    assert_eq!(server.asked(0)["model"], "large-1");
    assert!(server.asked(0).get("response_format").is_none());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_sent_back_with_its_errors() {
    let answers = ["no JSON", r#"{"summary": 5}"#, "```json\n{\"summary\": \"short\"}\n```"].map(completion);
    let (server, model) = Server::start(answers).await;
    let answer = model.complete(recipe(2)).await.unwrap();
    assert_eq!((answer.value, answer.calls), (json!({ "summary": "short" }), 3));
    assert_eq!((answer.input_tokens, answer.output_tokens), (57, 30), "repairs cost tokens also");
    let last = server.asked(2);
    let messages = last["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[4], json!({ "role": "assistant", "content": "{\"summary\": 5}" }));
    assert!(messages[5]["content"].as_str().unwrap().contains("/summary: "), "{last}");
}

#[tokio::test]
async fn an_answer_that_never_fits_is_returned_with_its_problems() {
    let (_, model) = Server::start([completion("{}"), completion("{}")]).await;
    let answer = model.complete(recipe(1)).await.unwrap();
    assert_eq!((answer.calls, answer.problems.len()), (2, 1), "{answer:?}");
    let mut cut = completion("{\"summary\": \"half");
    cut.1["choices"][0]["finish_reason"] = json!("length");
    let (_, model) = Server::start([cut]).await;
    assert!(model.complete(recipe(0)).await.unwrap().problems.iter().any(|problem| problem.contains("max_tokens")));
}

#[tokio::test]
async fn failures_have_classes_and_no_secrets() {
    let refused = json!({ "choices": [{ "message": { "content": null, "refusal": "No." } }] });
    for (status, body, class) in [
        (401, json!({ "error": { "message": "Incorrect API key provided: sk-hunter2" } }), ErrorClass::Invalid),
        (429, json!({}), ErrorClass::RateLimited),
        (503, json!({}), ErrorClass::Unavailable),
        (200, json!({ "choices": [] }), ErrorClass::Failed),
        (200, json!([1]), ErrorClass::Failed),
        (200, refused, ErrorClass::Invalid),
    ] {
        let (_, model) = Server::start([(status, body.clone())]).await;
        let error = model.complete(recipe(3)).await.unwrap_err();
        assert_eq!(error.class, class, "{status} {body}: {error}");
        assert!(!error.message.contains("hunter2"), "{error}");
        assert_eq!(error.retry_after, (status >= 400).then_some(Duration::from_secs(3)));
    }
    assert!(!format!("{:?}", Server::start([]).await.1).contains("hunter2"));
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_before_the_question() {
    let (server, model) = Server::start([]).await;
    let mut call = recipe(0);
    call.output = Some(json!({ "type": "nothing" }));
    assert_eq!(model.complete(call).await.unwrap_err().class, ErrorClass::Invalid);
    assert!(server.asked.lock().unwrap().is_empty());
}
