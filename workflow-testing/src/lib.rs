//! Tests of workflows: a database in memory with a worker beside it, in virtual time, and crashes
//! on demand.
//!
//! ```
//! use std::time::Duration;
//! use workflow_sdk::prelude::*;
//! use workflow_testing::{TestEnv, TestError};
//!
//! #[workflow]
//! async fn remind(ctx: &Ctx, name: String) -> Result<String> {
//!     ctx.sleep(Duration::from_secs(90 * 24 * 3600)).await?;
//!     ctx.step("write", async || Ok::<_, Error>(format!("dear {name}"))).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), TestError> {
//! let env = TestEnv::new().register(remind).await?;
//! let run = env.start(remind, "Ada".to_string()).await?;
//!
//! env.advance(Duration::from_secs(89 * 24 * 3600)).await?;
//! assert_eq!(run.status().await?, RunStatus::Parked);
//! env.advance(Duration::from_secs(24 * 3600)).await?;
//! assert_eq!(run.result().await?, "dear Ada");
//! run.assert_ran(["sleep", "write"]).await;
//!
//! env.crash_everywhere(remind, "Ada".to_string()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//! The env lives on a thread of its own, on a tokio runtime whose clock is paused. So a test may
//! run on any runtime, also on a plain `#[tokio::test]`. Time stands still until
//! [`TestEnv::advance`] or [`TestRun::finish`] lets it pass. Then it leaps from timer to timer,
//! each time when nothing else can go on. Durable sleeps, retries, timeouts, deadlines and
//! `tokio::time` in stubs are such timers. Years in which nothing happens cost as much as minutes.
//!
//! Virtual time works for a stub that answers from memory, at once or after a `tokio::time::sleep`.
//! Other stubs behave like this:
//! * I/O of tokio, such as a socket: the runtime has none, and the step fails with tokio's message
//!   that says so.
//! * A blocking call in `tokio::task::spawn_blocking` stops time for as long as it takes.
//! * A body that blocks its thread stops everything. A body that waits for a thread of its own
//!   (`std::thread`) gets real time from [`TestRun::result`]. If virtual time passes without it,
//!   the env returns [`TestError::Overtaken`].
//!
//! # Crashes
//! A crash drops all futures of the env's process where they are, and the memory of the process.
//! Only committed data is left. The destructors of the dropped values do run, unlike those of a
//! process that is killed.

mod body_hooks;
mod commit_log;
mod crash_everywhere;
mod crash_report;
mod crash_store;
mod effects;
mod env;
mod env_config;
mod env_thread;
mod error;
mod idle;
mod interleave;
mod memory;
mod outcome_keys;
mod process;
mod run;
mod surroundings;
mod time;
mod trial;

pub use commit_log::{Boundary, Side};
pub use crash_everywhere::{CrashEverywhere, Survived};
pub use crash_report::CrashReport;
pub use effects::{Effect, effect, idempotent_effect};
pub use env::{TestEnv, TestEnvBuilder, TestStart};
pub use error::TestError;
pub use interleave::{Interleave, InterleaveReport, Interleaved};
pub use memory::MemoryDatabase;
pub use run::TestRun;

pub use workflow_sdk::testing::*;
