//! A worker for the kill tests: `ledger_worker SETTINGS`, the settings being JSON. Its workflows write what they do to a
//! ledger outside of the database. Dies with the process that started it.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let settings = std::env::args().nth(1).ok_or("usage: ledger_worker SETTINGS")?;
    workflow_torture::ledger_worker::work(&settings)
}
