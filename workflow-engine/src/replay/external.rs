//! Data about external events: what a run waits for, and what it learns.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{EventName, NewRun, OnParentEnd, RunId, StepKind, StoredError, Timestamp};

/// A wait for a signal, a decision or an event.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalWait {
    /// [`StepKind::Signal`], [`StepKind::Approval`] or [`StepKind::Event`].
    pub kind: StepKind,
    /// The signal's name. `None`: a name derived from the call's key.
    pub name: Option<String>,
    /// The longest time of the wait, from its beginning.
    pub timeout: Option<Duration>,
    /// The person or group that is asked for a decision.
    pub to: Option<String>,
    /// The event, for a wait of kind [`StepKind::Event`].
    pub event: Option<EventName>,
}

/// A child that is to be started.
#[derive(Clone, Debug)]
pub struct ChildCall {
    /// The run to start. Its id and its parent are set later.
    pub run: Box<NewRun>,
    /// The fate of the child when this run ends first.
    pub on_parent_end: OnParentEnd,
    /// Whether the call does not wait for the child's end.
    pub detached: bool,
}

/// The end of a child.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// The child's id.
    pub run_id: RunId,
    /// The child's output as JSON text, or its error.
    pub result: Result<String, StoredError>,
}

/// The external events that a run waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AwaitedEvents {
    /// The names of signals.
    pub signals: Vec<String>,
    /// The ids of children.
    pub children: Vec<RunId>,
    /// The ids of those children that an earlier drive has started, until the first look that
    /// succeeds. Their rows exist, unless they were removed by hand.
    pub recorded_children: Vec<RunId>,
}

/// The note that the row of a child call holds until the child has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChildNote {
    pub(super) run_id: RunId,
    /// The attempt of the run that has started the child. 0: some earlier attempt.
    #[serde(default = "first_attempt", skip_serializing_if = "is_first_attempt")]
    pub(super) run_attempt: u32,
}

const fn first_attempt() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_first_attempt(attempt: &u32) -> bool {
    *attempt == 1
}

/// A wait for a signal, a decision or an event that has begun.
#[derive(Debug)]
pub(super) struct BegunWait {
    pub(super) kind: StepKind,
    /// The number of the wait's row, from 1.
    pub(super) attempt: u32,
    pub(super) name: String,
    pub(super) until: Option<Timestamp>,
    pub(super) started_at: Timestamp,
    pub(super) to: Option<String>,
    /// The event, for a wait of kind [`StepKind::Event`].
    pub(super) event: Option<EventName>,
    /// Whether the row of the wait was written.
    pub(super) recorded: bool,
}
