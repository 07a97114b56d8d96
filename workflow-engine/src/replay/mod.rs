//! The pure core of replay: takes a run's history and its calls, and returns decisions. It has no
//! I/O, no clock, no randomness and no threads.
//!
//! A workflow function is a deterministic function of the *sequence of outcomes* delivered to it.
//! Outcomes are therefore delivered one at a time, in one recorded order. A replay delivers the
//! recorded outcomes in that order before any body runs. A plain memo table would answer every
//! recorded call at once, and a race could then have another winner.

mod attempts;
mod breaker_hold;
mod call;
mod delivery;
mod divergence;
mod external_events;
mod history;
mod interruption;
mod machine;
mod names;
mod patch;
mod publish;
mod records;
mod replay_position;
mod report;
mod size;
mod transactions;

pub use call::{CallId, CallPoll, Delivered, StepOptions, Wait};
pub use delivery::Next;
pub use divergence::Divergence;
pub use external_events::{AwaitedEvents, ChildCall, ChildEnd, SignalWait};
pub use interruption::{Interrupted, Interruption};
pub use machine::INITIAL_CALLS;
pub use machine::Machine;
pub use records::OutboxRow;
pub use replay_position::bytes;
pub use replay_position::{CurrentCall, RecordedCall, Snapshot};
pub use report::{MAX_LISTED, write_rest};
pub use size::HistorySize;
pub use transactions::CommitRow;
