//! A web application. A request starts a run and answers with its result, or with its id if the run
//! takes longer than a second. The worker runs in the same process or, with `--role`, in another
//! one.
//!
//! `cargo run --example web_app`, then
//! `curl -d '{"id":"A-1","cents":4200}' -H 'content-type: application/json' localhost:3000/orders`

use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, RunId};
use workflow_worker::Worker;

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    id: String,
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    order: String,
    payment: String,
    parcel: String,
}

#[workflow]
async fn checkout(ctx: &Ctx, order: Order) -> Result<Receipt> {
    let payment = ctx.step("charge", async || ok(format!("{} cents", order.cents))).await?;
    let parcel = ctx.step("ship", async || ok(format!("parcel of {}", order.id))).await?;
    Ok(Receipt { order: order.id, payment, parcel })
}

/// Starts a run for an order. The order's id is the key, so a browser that sends an order twice
/// gets the same run.
async fn place_order(
    State(client): State<Client>,
    order: Result<Json<Order>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(order) = order?;
    let key = order.id.clone();
    let run = client.start(checkout, order).key(key).await?;
    match tokio::time::timeout(Duration::from_secs(1), run.result()).await {
        Ok(receipt) => Ok(Json(receipt?).into_response()),
        Err(_) => Ok((StatusCode::ACCEPTED, Json(json!({ "run": run.id() }))).into_response()),
    }
}

async fn show_run(
    State(client): State<Client>,
    id: Result<Path<RunId>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path(id) = id?;
    let run = client.run(id).await?;
    let output: Option<Value> = run.output.as_deref().and_then(|output| serde_json::from_str(output).ok());
    Ok(Json(json!({ "run": run.id, "status": run.status, "output": output, "error": run.error })))
}

/// An error as an HTTP response.
struct Problem(StatusCode, String);

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let status = match &error {
            ClientError::UnknownRun { .. } => StatusCode::NOT_FOUND,
            ClientError::KeyConflict { .. } => StatusCode::CONFLICT,
            ClientError::Name(_) | ClientError::Payload(_) => StatusCode::BAD_REQUEST,
            ClientError::Database(_) | ClientError::TimedOut { .. } | ClientError::Stopped(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self(rejection.status(), rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

#[derive(Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "all")]
    role: Role,
    /// sqlite://file or postgres://user@host/database [default: a fresh SQLite file]
    #[arg(long, required_if_eq_any = [("role", "web"), ("role", "worker")])]
    database: Option<String>,
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Web,
    Worker,
    All,
}

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let options = Options::parse();
    let directory = tempfile::tempdir()?;
    let fresh = || format!("sqlite://{}/web_app.db", directory.path().display());
    let client = Client::connect(options.database.unwrap_or_else(fresh)).await?;
    match options.role {
        Role::Web => serve(client, &options.listen).await,
        Role::Worker => work(client).await,
        Role::All => futures::try_join!(work(client.clone()), serve(client, &options.listen)).map(|_| ()),
    }
}

async fn work(client: Client) -> Result<()> {
    println!("worker: ready");
    Worker::new(client, ()).register(checkout).run().await?;
    println!("worker: drained");
    Ok(())
}

async fn serve(client: Client, listen: &str) -> Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let app = Router::new().route("/orders", post(place_order)).route("/runs/{id}", get(show_run)).with_state(client);
    let listener = TcpListener::bind(listen).await?;
    println!("web: http://{}", listener.local_addr()?);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    println!("web: drained");
    Ok(())
}
