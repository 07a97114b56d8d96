//! The worker of workflow-sdk: claims due runs and drives them.
//!
//! ```no_run
//! // no_run: a worker runs until it is told to stop.
//! use workflow_sdk::prelude::*;
//! use workflow_worker::Worker;
//!
//! #[workflow]
//! async fn greet(ctx: &Ctx, name: String) -> Result<String> {
//!     ctx.step("greet", async || Ok::<_, Error>(format!("hello, {name}"))).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("sqlite://greetings.db").await?;
//! Worker::new(client, ()).register(greet).run().await?;
//! # Ok(())
//! # }
//! ```

mod bell;
mod circuits;
mod claim;
mod clock;
mod conclude;
mod drive;
mod due;
mod error;
mod held;
mod lease;
mod notice_board;
mod options;
mod outside;
mod port;
mod preflight;
mod preflight_report;
mod pressure;
mod registry;
mod shared;
mod shutdown;
mod suspicion;
mod sweep;
mod transaction;
mod verdict;
mod wait;
mod worker;

pub use error::WorkerError;
pub use options::{ForeignAwait, WorkerOptions};
pub use preflight_report::{Finding, PreflightReport, Unregistered};
pub use worker::Worker;
