//! A server on this machine in the place of those that the documents call.

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Json;
use axum::routing::{any, get};
use axum::{Router, serve};
use serde_json::{Value, json};

/// Begins the server. Returns its address.
pub(crate) async fn begin() -> String {
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/text", get(async || "a text"))
        .route("/items", get(items))
        .route("/tickets", get(async || Json(json!([{ "id": 1 }, { "id": 2 }]))))
        .route("/stock", get(async || Json(json!({ "available": true }))))
        .route("/status/{code}", any(status));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { serve(listener, router).await });
    format!("http://{address}")
}

/// Answers with what it has received.
async fn echo(body: Bytes) -> Json<Value> {
    Json(json!({ "received": serde_json::from_slice::<Value>(&body).unwrap_or_default() }))
}

async fn items() -> Json<Value> {
    Json(json!({ "items": [{ "id": "a", "score": 0.9 }, { "id": "b", "score": 0.2 }] }))
}

async fn status(Path(code): Path<u16>) -> (StatusCode, Json<Value>) {
    (StatusCode::from_u16(code).unwrap(), Json(json!({})))
}
