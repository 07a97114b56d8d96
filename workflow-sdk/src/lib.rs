//! Durable workflows as plain Rust.
//!
//! Mark an `async fn` with [`#[workflow]`](macro@workflow), wrap its effects in [`Ctx::step`],
//! start runs with a [`Client`], and run them in worker processes (crate `workflow-worker`). If a
//! process is killed at any time, finished steps keep their values and never run again, and another
//! worker continues the run. The database is the only coordinator: a SQLite file, or PostgreSQL for
//! many machines.
//!
//! ```
//! use workflow_sdk::prelude::*;
//!
//! #[workflow]
//! async fn greet(ctx: &Ctx, name: String) -> Result<String> {
//!     let greeting = ctx.step("compose", async || ok(format!("hello, {name}")));
//!     greeting.retry(Retry::exponential().max_attempts(3)).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("sqlite::memory:").await?;
//! let run = client.start(greet, "Ada".to_string()).key("greet-ada").await?;
//! // A worker, here or in another process: Worker::new(client, ()).register(greet).run().await?;
//! // Then: assert_eq!(run.result().await?, "hello, Ada");
//! assert_eq!(run.status().await?, RunStatus::Pending);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//! * Workflow code: [`Ctx`] and the rules for workflow code, [`Step`], [`Transaction`], [`Sleep`],
//!   [`Map`], [`Scope`], [`Timeout`], [`WaitForSignal`], [`WaitForApproval`], [`Child`],
//!   [`Shield`], [`Compensation`], [`Retry`], [`Breaker`], [`Error`], [`ErrorExt`] and
//!   [`StepError`].
//! * Applications: [`Client`], [`Start`], [`RunHandle`], [`RunStream`], [`RunFilter`],
//!   [`ClientError`], [`ApplicationPool`], [`ApplicationTransaction`].
//! * Operators: the module [`operate`], with the search grammar and lists of runs.
//! * Another database: [`Transfer`] moves a whole system. Several databases: [`choose_cell`].
//! * Schedules: [`Schedule`], [`Overlap`], [`CatchUp`], [`ScheduleHandle`], [`Ctx::occurrence`].
//! * Stored data: [`Run`], [`StepAttempt`], [`StoredError`], [`RunHistory`].
//! * Before a deploy: `testing::replay`, `Worker::preflight` of the crate `workflow-worker`,
//!   [`Divergence`].
//!
//! # Features
//! | Feature | Default | What it adds |
//! |---|---|---|
//! | `macros` | yes | `#[workflow]` and `#[derive(StepError)]` |
//! | `sqlite` | yes | the SQLite store, with SQLite bundled |
//! | `postgres` | yes | the PostgreSQL store |
//! | `testing` | no | the module `testing`: replays of stored histories, for tests |
//! | `encryption` | no | `Encryption`: every stored payload encrypted, with keys that rotate |
//! | `metrics` | no | the module `metrics`: counters, histograms and gauges of the database |
//! | `otel` | no | the module `otel`: the spans of runs and steps in OpenTelemetry |
//! | `openapi` | no | schemas of the types of [`operate`], for OpenAPI documents |
//! | `failpoints` | no | points at which a test kills the process or fails an operation |
//! | `planted-bugs` | no | bugs that a test switches on to see that its checks find them |

#![cfg_attr(docsrs, feature(doc_cfg))]

// The code that `#[workflow]` generates names this crate as users do.
extern crate self as workflow_sdk;

mod cell;
mod client;
mod ctx;
#[cfg(feature = "encryption")]
mod encryption;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod operate;
#[cfg(feature = "otel")]
pub mod otel;
mod schedule;
#[cfg(all(test, feature = "macros"))]
mod step_error_tests;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
mod transfer;
mod workflow;

pub mod prelude;

pub use cell::choose_cell;
pub use client::{
    ApplicationPool, ApplicationTransaction, ApprovalKind, Awaited, Backfill, BackfillPreview, BackfillReport, Cancel,
    Client, ClientError, Connect, DEFAULT_QUEUE, DEFAULT_VERSION, Decide, Emit, Explanation, Export, FORKED_FROM, Fork,
    InvalidSingle, LimitHandle, MAX_SINGLE_TIME, PendingApproval, QueueHandle, RetryRun, RunHandle, RunStream,
    ScheduleHandle, ScheduleInfo, SendSignal, Single, Start, Trigger,
};
pub use ctx::{
    BodyError, Child, ChildHandle, CollectResults, Compensation, Ctx, DetachedChild, Either, EventCall,
    MAX_CHILD_DEPTH, Map, Misfit, Race, Replayed, Scope, Select, Shield, Sleep, Step, StepValue, Timeout, Transaction,
    WaitForApproval, WaitForEvent, WaitForSignal,
};
#[cfg(feature = "encryption")]
pub use encryption::{Encryption, EncryptionKey, InvalidKey};
pub use schedule::Schedule;
pub use transaction::{TransactionOver, Tx};
pub use transfer::{Transfer, TransferError, TransferProgress, TransferReport, TransferredTable};
pub use workflow::{__private, RunsWith, Workflow};
pub use workflow_engine::model::{
    AcceptedSignal, AttemptStatus, Breaker, CodecError, CodedPayload, DEFAULT_SIGNAL_LIMIT, Decision, ErrorKind,
    ErrorSummary, EventName, FullQueue, GateLimits, HistoryError, InvalidBreaker, InvalidGate, InvalidName,
    InvalidRate, InvalidTags, InvalidTraceContext, KeyReuse, Lane, LimitRecord, LimitRule, MAX_TAG_BYTES, MAX_TAGS,
    NameSubject, NamesSignal, OnParentEnd, Parent, PayloadCodec, PayloadContext, PayloadPlace, Priority, QueueLimits,
    QueuePause, QueueRecord, Rate, RecordedRun, Retain, Retry, Run, RunFilter, RunHistory, RunId, RunNow, RunStatus,
    RunSummary, Signal, SignalOutcome, SingleKey, SingleUntil, StepAttempt, StepKind, StoredError, Timestamp,
    TraceContext, TypedPayload, UnreadablePayload, UnreadableReason,
};
pub use workflow_engine::observe::{BegunSpan, Event, Observer, RunName, StepName};
pub use workflow_engine::replay::{CurrentCall, Divergence, RecordedCall};
pub use workflow_engine::runtime::{
    BoxError, DEFAULT_PAYLOAD_LIMIT, Error, ErrorExt, PayloadError, Result, RetryAdvice, StepError, ok,
};
pub use workflow_engine::schedule::{
    CatchUp, Declaration, InvalidSchedule, OCCURRENCE_TAG, Occurrence, Origin, Overlap, PauseCause, SCHEDULE_TAG,
    SchedulePause, ScheduleState, Timing, UnreadableSchedule, Waiting,
};
pub use workflow_engine::store::{
    CancelOutcome, ConnectError, DatabaseError, DatabaseErrorKind, DeletedRun, PauseOutcome, PlaceOutcome,
    ResumeOutcome, Standby,
};

/// Items for the other crates of this project. Internal: exempt from semantic versioning.
#[doc(hidden)]
pub mod internal {
    pub use crate::client::{call_waiting_seats, emit, migration_script, open as connect, run_history};
    pub use crate::ctx::{Entry, dry_replay, run_compensations};
    pub use crate::schedule::{DeclaredSchedule, ScheduleInput, ScheduledInput};
    pub use workflow_engine::model::{DECISION_SIGNAL, check_name, is_control};
    pub use workflow_engine::store::redact;
}

/// The database driver, in the version whose transactions [`Start::within`] takes.
pub use sqlx;

/// Compiles and runs the code on this page of the guide.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../../docs/guide/errors-and-retries.md")]
struct Pages;

/// Compiles and runs the code on the page about security, which needs more features.
#[cfg(all(doctest, feature = "encryption", feature = "sqlite"))]
#[doc = include_str!("../../docs/guide/security.md")]
struct SecurityPage;

#[cfg(feature = "macros")]
pub use workflow_macros::{StepError, workflow};
