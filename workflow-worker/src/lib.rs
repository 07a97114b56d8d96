//! The worker of `workflow-sdk`: claims runs that are due and drives them to their end.
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

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bulk;
mod circuits;
mod claim;
mod claim_state;
mod claims;
mod clock;
mod declaration;
mod drive;
mod due;
mod error;
mod idle;
mod lane_order;
mod lease;
mod limit;
mod notifications;
mod options;
mod preflight;
mod preflight_report;
mod prune;
mod pulse;
mod quarantine;
mod queue;
mod queue_watch;
mod registry;
mod replay;
mod retention;
mod saturation;
mod schedules;
mod seat_watch;
mod shared;
mod shutdown;
mod source_lines;
mod sweep;
mod wakeup;
mod worker;

pub use error::WorkerError;
pub use limit::Limit;
pub use options::{ForeignAwait, LapsedLease, WorkerOptions};
pub use preflight_report::{Finding, PreflightReport, Unregistered};
pub use prune::{PruneError, Pruned, prune};
pub use queue::Queue;
pub use replay::ReplayRunError;
pub use worker::Worker;
pub use workflow_sdk::{GateLimits, Rate, Retain};

/// Compiles the code on the page about ended runs.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/retention.md")]
struct RetentionPage;

/// Compiles the code on the page about limits for steps.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/guide/step-limits.md")]
struct StepLimitsPage;

/// Compiles the code on the page about queues.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/queues.md")]
struct QueuesPage;
