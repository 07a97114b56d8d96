//! Connects once, as the first thing that a process of an application does: `migrate URL SCHEMA`.

use workflow_sdk::engine::{BackendOptions, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema)) = (arguments.next(), arguments.next()) else {
        return Err("usage: migrate URL SCHEMA".into());
    };
    let mut options = BackendOptions::default();
    options.schema = schema;
    let backend = connect(&url, options).await?;
    backend.close().await;
    Ok(())
}
