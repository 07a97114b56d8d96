//! A worker for the kill tests: `ledger_worker SETTINGS`, where the settings are JSON. Its
//! workflows write what they do to a ledger outside the database. It ends if the process that
//! started it dies.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let settings = std::env::args().nth(1).ok_or("usage: ledger_worker SETTINGS")?;
    workflow_torture::ledger_worker::work(&settings)
}
