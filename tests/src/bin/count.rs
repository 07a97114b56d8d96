//! Starts runs for ever, one after the other, and counts them as each client does:
//! `count URL SCHEMA`.

use workflow_sdk::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema)) = (arguments.next(), arguments.next()) else {
        return Err("usage: count URL SCHEMA".into());
    };
    let connect = Client::connect(url);
    let client = if schema.is_empty() { connect.await? } else { connect.schema(schema).await? };
    loop {
        client.start_by_name("no_code", &1.into()).await?;
    }
}
