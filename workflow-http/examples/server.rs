//! A worker and the HTTP interface in one program. `scripts/typescript` and `scripts/schemathesis`
//! run it. Prints its address once it listens, and ends when its input is closed.
//!
//! `cargo run -p workflow-http --features flows --example server -- ORDERS.db TOKEN`

use std::io::Read;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use workflow_flows::{FlowStore, Flows};
use workflow_http::{Access, Actor, router_with_flows};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// The input of [`greets`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub name: String,
}

/// Waits for a greeting and returns it.
#[workflow]
pub async fn greets(ctx: &Ctx, person: Person) -> Result<String> {
    let greeting: String = ctx.signal("greeting").await?.unwrap_or_default();
    ctx.step("greet", async || ok(format!("{greeting}, {}", person.name))).await
}

/// Fails.
#[workflow]
pub async fn fails(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal("the card was declined"))).await
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a database file")?;
    let token = arguments.next().ok_or("name a token")?;
    let client = Client::connect(format!("sqlite://{file}")).await?;
    let worker = tokio::spawn(Worker::new(client.clone(), ()).register(greets).register(fails).run());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/workflows", listener.local_addr()?);
    let flows = Flows::new(client.clone(), FlowStore::connect(&format!("sqlite://{file}")).await?);
    let routes = router_with_flows(client, Access::token(token, Actor::admin("example")), flows);
    let app = axum::Router::new().nest("/workflows", routes);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.abort();
    worker.abort();
    Ok(())
}
