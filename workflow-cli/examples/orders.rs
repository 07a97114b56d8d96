//! A program of an application: `orders run` works, and the other verbs operate it.
//!
//! `cargo run -p workflow-cli --example orders -- --help`

use std::process::ExitCode;

use workflow_flows::{FlowRuntime, Policy, ToolCall, flow};
use workflow_sdk::prelude::*;
use workflow_worker::{Retain, Worker};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[workflow]
async fn checkout(ctx: &Ctx, order: u64) -> Result<String> {
    let parcel = ctx.step("pack", async || ok(pack(order).await)).await?;
    ctx.sleep(Duration::from_millis(10)).await?;
    ctx.step("ship", async || ok(format!("{parcel} is on its way"))).await
}

/// Packs a parcel. Waits as long as a file `held` lies in the directory.
async fn pack(order: u64) -> String {
    while std::path::Path::new("held").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    format!("parcel {order}")
}

/// Guests look, and call nothing.
struct NoGuests;

impl Policy for NoGuests {
    fn may(&self, actor: &str, _tool: &str, _args: &serde_json::Value) -> bool {
        actor != "guest"
    }
}

/// The tools of flows.
fn tools() -> FlowRuntime {
    let pack = |order: u64, _call: ToolCall| async move { Ok(pack(order).await) };
    FlowRuntime::builder().tool("pack", pack).policy(NoGuests).build()
}

fn main() -> ExitCode {
    workflow_cli::kit("orders")
        .database("sqlite://orders.db")
        .worker_with_flows(async |client| {
            Ok(Worker::new(client, tools()).register(checkout).register(flow).retain(Retain::all(30 * DAY)))
        })
        .main()
}
