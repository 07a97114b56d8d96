//! A server on this machine in the place of the public ones that the features call.

use std::collections::BTreeSet;
use std::sync::Mutex;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Json;
use axum::routing::{get, post};
use axum::{Router, http::header::AUTHORIZATION};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Begins the server. Returns its address.
pub(crate) async fn begin() -> String {
    let router = Router::new()
        .route("/petstore/v2/pet/findByStatus", get(async || Json(json!([pet(1)]))))
        .route("/petstore/v2/pet/getPetByName/{name}", get(async || (StatusCode::NOT_FOUND, "Pet not found")))
        .route("/petstore/v2/pet/{id}", get(async |Path(id): Path<u64>| Json(pet(id))))
        .route("/httpbin/charge", post(charge))
        .route("/httpbin/basic-auth/{name}/{password}", get(basic));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn pet(id: u64) -> Value {
    json!({ "id": id, "name": "Milou", "status": "available" })
}

/// The keys of the charges that have come.
static KEYS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes the third charge. Returns how many came, and how many keys they had.
async fn charge(headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let mut keys = KEYS.lock().unwrap();
    keys.push(headers["idempotency-key"].to_str().unwrap().to_owned());
    let distinct: BTreeSet<&String> = keys.iter().collect();
    let status = if keys.len() < 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(json!({ "calls": keys.len(), "keys": distinct.len() })))
}

async fn basic(Path((name, password)): Path<(String, String)>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let expected = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
    let is_known = headers.get(AUTHORIZATION).is_some_and(|given| given.as_bytes() == expected.as_bytes());
    let status = if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    (status, Json(json!({ "authenticated": is_known, "user": name })))
}
