//! Says that the answers come from a standby.

use std::time::Duration;

use workflow_sdk::Client;
use workflow_sdk::operate::{Operate, StandbyView};

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
        Some(standby) => output.note(format!("{}; nothing can be changed here", sentence(&standby))),
        None => output.note("this was a standby when the program connected; nothing can be changed here"),
    }
    Ok(())
}

/// Returns the sentence about a standby: its primary, and how far it is behind.
pub(crate) fn sentence(StandbyView { lag_millis, primary, .. }: &StandbyView) -> String {
    let of = primary.as_ref().map(|primary| format!(" of {primary}")).unwrap_or_default();
    match lag_millis {
        Some(lag) => format!("this is a standby{of}, {} behind", span(Duration::from_millis(*lag))),
        None => format!("this is a standby{of} that has shown no transaction since its start"),
    }
}
