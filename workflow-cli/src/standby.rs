//! Says that the answers come from a standby.

use workflow_sdk::Client;
use workflow_sdk::operate::Operate;

use crate::Failure;
use crate::clock::span;
use crate::output::Output;

/// Tells a person that the answers of this client come from a standby, if they do.
pub(crate) async fn tell(client: &Client, output: &Output) -> Result<(), Failure> {
    if client.store().standby().is_none() {
        return Ok(());
    }
    let postgres = client.system().await?.database.postgres;
    match postgres.and_then(|postgres| postgres.standby) {
        Some(standby) => output.note(format!("{}; nothing can be changed here", standby.sentence(span))),
        None => output.note("this was a standby when the program connected; nothing can be changed here"),
    }
    Ok(())
}
