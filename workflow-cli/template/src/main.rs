//! The worker and the command line of this program: `new-app --help`.

use std::process::ExitCode;

use async_trait::async_trait;
use workflow_worker::Worker;

use new_app::{App, Bank, checkout};

fn main() -> ExitCode {
    workflow_cli::kit("new-app")
        .database("sqlite://new-app.db")
        .worker(async |client| {
            let app = App::new(DemoBank);
            Ok(Worker::new(client, app).register(checkout))
        })
        .main()
}

/// Stands for a client of a real bank.
struct DemoBank;

#[async_trait]
impl Bank for DemoBank {
    async fn charge(&self, key: &str, _cents: u64) -> Result<String, std::io::Error> {
        Ok(format!("payment-{key}"))
    }
}
