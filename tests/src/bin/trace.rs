//! Drives runs of two workflows, whose bodies log where in a trace they are:
//! `trace URL SCHEMA [hang]`. With `hang` no body ends.

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn traced(ctx: &Ctx<bool>) -> Result<()> {
    ctx.step("work", async || body(ctx).await).await?;
    ctx.child(traced_child, ()).await
}

#[workflow]
async fn traced_child(ctx: &Ctx<bool>) -> Result<()> {
    ctx.step("work", async || body(ctx).await).await
}

async fn body(ctx: &Ctx<bool>) -> Result<()> {
    let seen = ctx.trace_context().map(|trace| trace.to_string()).unwrap_or_default();
    tracing::info!(%seen, "body of {}", ctx.workflow());
    if *ctx.state() {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, schema, rest @ ..] = &arguments[..] else { return Err("usage: trace URL SCHEMA [hang]".into()) };
    tracing_subscriber::fmt().with_ansi(false).init();
    let connect = Client::connect(url);
    let client = if schema.is_empty() { connect.await? } else { connect.schema(schema).await? };
    Worker::new(client, !rest.is_empty()).register(traced).register(traced_child).run().await?;
    Ok(())
}
