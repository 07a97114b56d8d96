//! Runs flows that write documents until it is killed: `documents URL SCHEMA BASE`. The last
//! is the URL of the knowledge base; on SQLite the schema is empty.

use std::time::Duration;

use workflow_flows::{FlowRuntime, KbStore, flow};
use workflow_sdk::Client;
use workflow_worker::Worker;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema), Some(base)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: documents URL SCHEMA BASE".into());
    };
    let connect = Client::connect(url.as_str());
    let client = if schema.is_empty() { connect.await? } else { connect.schema(schema.as_str()).await? };
    let runtime = FlowRuntime::builder().knowledge_base(KbStore::attach(&base).await?).build();
    Worker::new(client, runtime).register(flow).lease(Duration::from_millis(500)).run().await?;
    Ok(())
}
