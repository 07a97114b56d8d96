//! Connects once, as a process of an application does first: `migrate URL SCHEMA`.

use workflow_engine::store::StoreOptions;
use workflow_sdk::internal::connect;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema)) = (arguments.next(), arguments.next()) else {
        return Err("usage: migrate URL SCHEMA".into());
    };
    let options = StoreOptions { schema, ..StoreOptions::default() };
    let store = connect(&url, options).await?;
    store.close().await;
    Ok(())
}
