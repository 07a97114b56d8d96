//! The graph: a flow after its document was checked and lowered.
//!
//! Documents of every dialect end here, and the interpreter knows nothing else. All references are
//! resolved, synonyms are written in one way, and defaults stand in each step. Strings inside
//! values may be templates: see [`expression`](crate::expression).

mod block;
mod digest;
mod flow;
mod kind;
mod millis;
mod step;
mod trigger;
mod walk;

pub use block::{Block, Next};
pub use flow::{Flow, MissingPath, OnTimeout};
pub use kind::{
    Approval, AtMax, Decision, Emission, Failure, FlowCall, Handoff, KbWrite, Kind, Loop, OnItemError, OnReject,
    Parallel, ParallelMode, Recipe, Switch, Until, Wait,
};
pub use step::{AddedDelay, Backoff, BreakerRule, LimitRule, OnError, RetryRule, Step, ToolUse};
pub use trigger::{Overlap, Trigger};
