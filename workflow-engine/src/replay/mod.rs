//! The pure core of replay: takes a run's history and its calls, and returns decisions. It has no
//! I/O, no clock, no randomness and no threads.
//!
//! A workflow function is a deterministic function of the *sequence of outcomes* delivered to it.
//! Outcomes are therefore delivered one at a time, in one recorded order. A replay delivers the
//! recorded outcomes in that order before any body runs. A plain memo table would answer every
//! recorded call at once, and a race could then have another winner.

mod bodies;
mod call;
mod calls;
mod deliveries;
mod divergence;
mod external;
mod external_events;
mod history;
mod interruption;
mod machine;
mod names;
mod patches;
mod publish;
mod records;
mod replay_position;
mod report;
mod size;
mod time;
mod timers;
mod withheld;

pub use call::{CallId, CallPoll, Delivered, StepOptions, Wait};
pub use calls::INITIAL_CALLS;
pub use divergence::bytes;
pub use divergence::{CurrentCall, Divergence, RecordedCall};
pub use external::{AwaitedEvents, ChildCall, ChildEnd, SignalWait};
pub use interruption::{Interrupted, Interruption};
pub use machine::{Machine, Next};
pub use records::{CommitRow, OutboxRow};
pub use replay_position::Snapshot;
pub use size::HistorySize;
