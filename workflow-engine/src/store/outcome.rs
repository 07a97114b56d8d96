use crate::model::{
    BulkRecord, Claim, FullQueue, Lane, RunId, RunStatus, SignalOutcome, StoredError, Timestamp, TraceContext,
};

use super::{DatabaseError, DeleteOutcome};

/// The outcome of a write.
#[derive(Debug)]
pub enum Outcome {
    /// The write was applied.
    Applied,
    /// The write had been applied before: the reply to an earlier commit of it was lost.
    Duplicate,
    /// The claim is not the run's current one. Nothing was changed.
    Lost,
    /// The write was refused: it changed nothing and never will.
    Refused(DatabaseError),
    /// The outcome of [`Write::Start`](super::Write::Start) and
    /// [`Write::Fork`](super::Write::Fork).
    Started(StartOutcome),
    /// The outcome of [`Write::Signal`](super::Write::Signal).
    Signaled(SignalOutcome),
    /// The outcome of [`Write::Emit`](super::Write::Emit).
    Emitted(Emitted),
    /// Another transaction that is open works on the event of this write: a
    /// [`Write::Attempt`](super::Write::Attempt) that begins a wait meets an emission, or a
    /// [`Write::Emit`](super::Write::Emit) meets either. Or it works on the single key of a
    /// [`Write::Start`](super::Write::Start) or [`Write::Revive`](super::Write::Revive), or starts
    /// runs in its queue, which has a bound. Nothing was changed. The writer sends the write again
    /// after a moment.
    Busy,
    /// A [`Write::Attempt`](super::Write::Attempt) was to end a wait for an event because its
    /// timeout has passed, but the event was delivered before. Nothing was changed.
    Delivered,
    /// A [`Write::Attempt`](super::Write::Attempt) could not start its child: another run of this
    /// workflow and key exists. Neither the row nor the child was written.
    KeyTaken {
        /// The run that has the key.
        id: RunId,
    },
    /// A [`Write::Start`](super::Write::Start) or [`Write::Fork`](super::Write::Fork) would start a
    /// run in a queue or behind a gate that has no room. Nothing was changed.
    QueueFull(FullQueue),
    /// A [`Write::Revive`](super::Write::Revive) could not make its run pending: another run has
    /// its single key. Nothing was changed.
    SingleTaken {
        /// The run that has the key.
        id: RunId,
    },
    /// A [`Write::Fork`](super::Write::Fork) was to copy the history of a run that is not in the
    /// database. No run was started.
    SourceMissing,
    /// A [`Write::Attempt`](super::Write::Attempt) asked for a seat and waits for one. Its row was
    /// written, but its body may not begin.
    SeatWaits {
        /// When the step asks again by itself, because it waits for the rate alone. `None`: its run
        /// is woken.
        asks_at: Option<Timestamp>,
    },
    /// A [`Write::Attempt`](super::Write::Attempt) asked for a seat of a limit that is neither
    /// declared nor set. Nothing was changed.
    LimitUndeclared,
    /// The outcome of [`Write::CallSeats`](super::Write::CallSeats): the runs of the steps that
    /// were called, sorted.
    Called(Vec<RunId>),
    /// The outcome of [`Write::Cancel`](super::Write::Cancel) and
    /// [`Write::Terminate`](super::Write::Terminate).
    Canceled(CancelOutcome),
    /// The outcome of [`Write::Delete`](super::Write::Delete).
    Deleted(DeleteOutcome),
    /// The outcome of [`Write::Pause`](super::Write::Pause).
    Paused(PauseOutcome),
    /// The outcome of [`Write::Resume`](super::Write::Resume).
    Resumed(ResumeOutcome),
    /// The outcome of [`Write::Place`](super::Write::Place).
    Placed(PlaceOutcome),
    /// The outcome of [`Write::Claim`](super::Write::Claim).
    Claimed(Claimed),
    /// The outcome of [`Write::ReleaseUnknown`](super::Write::ReleaseUnknown) and
    /// [`Write::Expire`](super::Write::Expire): the number of changed runs.
    Changed(u64),
    /// The outcome of [`BulkWrite::Claim`](super::BulkWrite): the operation; `None` if none is due.
    BulkClaimed(Option<Box<BulkRecord>>),
    /// The outcome of [`BulkWrite::Advance`](super::BulkWrite): that of each write of the chunk, in
    /// their order.
    Advanced(Vec<Self>),
}

impl Outcome {
    /// Returns a copy of an error that several writes have in common.
    pub fn refused(error: &DatabaseError) -> Self {
        Self::Refused(error.copied())
    }

    /// `true` if neither this commit of the write nor an earlier one, whose reply was lost, can
    /// have changed anything that others still have to learn of.
    #[must_use]
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Lost | Self::Refused(_) | Self::KeyTaken { .. } | Self::Changed(0) => true,
            Self::Busy | Self::Delivered | Self::SingleTaken { .. } | Self::SourceMissing | Self::QueueFull(_) => true,
            Self::Started(StartOutcome::Held { .. }) => true,
            Self::LimitUndeclared => true,
            Self::Called(runs) => runs.is_empty(),
            Self::BulkClaimed(_) => true,
            Self::Advanced(outcomes) => outcomes.iter().all(Self::changed_nothing),
            Self::Deleted(outcome) => outcome.changed_nothing(),
            // An existing row may come from a commit whose reply was lost.
            Self::SeatWaits { .. } => false,
            Self::Applied | Self::Duplicate | Self::Started(_) | Self::Signaled(_) | Self::Emitted(_) => false,
            Self::Canceled(_) | Self::Paused(_) | Self::Resumed(_) | Self::Claimed(_) | Self::Changed(_) => false,
            Self::Placed(_) => false,
        }
    }
}

impl Outcome {
    /// Returns the name of the outcome for a text, because its `Debug` form shows payloads.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::Lost => "lost",
            Self::Refused(_) => "refused",
            Self::Started(_) => "started",
            Self::Signaled(_) => "signaled",
            Self::Emitted(_) => "emitted",
            Self::Busy => "busy",
            Self::Delivered => "delivered",
            Self::KeyTaken { .. } => "key taken",
            Self::QueueFull(_) => "queue full",
            Self::SingleTaken { .. } => "single key taken",
            Self::SourceMissing => "source missing",
            Self::SeatWaits { .. } => "seat waits",
            Self::LimitUndeclared => "limit undeclared",
            Self::Called(_) => "called",
            Self::Canceled(_) => "canceled",
            Self::Deleted(_) => "deleted",
            Self::Paused(_) => "paused",
            Self::Resumed(_) => "resumed",
            Self::Placed(_) => "placed",
            Self::Claimed(_) => "claimed",
            Self::Changed(_) => "changed",
            Self::BulkClaimed(_) => "bulk claimed",
            Self::Advanced(_) => "advanced",
        }
    }
}

/// The outcome of an emission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emitted {
    /// The number of runs that the event was delivered to.
    pub count: u64,
    /// The runs that this commit has woken, sorted. Empty if an earlier commit has delivered the
    /// event.
    pub woken: Vec<RunId>,
}

/// The outcome of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// The run was created.
    Created,
    /// A run of this workflow and key exists; nothing was changed.
    Existing {
        /// The run that has the key.
        id: RunId,
        /// Its input as JSON text.
        input: String,
    },
    /// A run of this workflow and key exists and has continued as new, so its first input is not
    /// known any more.
    Continued {
        /// The run that has the key.
        id: RunId,
    },
    /// Another run has the single key; nothing was changed.
    Held {
        /// The run that has the key.
        id: RunId,
    },
    /// The run that has the single key starts later, with the input of this start.
    Moved {
        /// The run that has the key.
        id: RunId,
    },
    /// The run was created. The run that had the single key was asked to cancel.
    Replaced {
        /// The run that had the key.
        id: RunId,
    },
}

/// The outcome of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The run is canceled: no worker had ever claimed it, or it was terminated.
    Canceled,
    /// The run was asked to end and cleans up, within the grace.
    Requested,
    /// The run had ended before, with this status.
    Ended(RunStatus),
    /// No run has this id.
    Unknown,
}

/// The outcome of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PauseOutcome {
    /// No worker holds the run, and none will claim it before it is resumed.
    Paused,
    /// A worker holds the run: it lets running steps end, begins no others and releases the run.
    Requested,
    /// The run had ended before, with this status.
    Ended(RunStatus),
    /// No run has this id.
    Unknown,
}

/// The outcome of a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeOutcome {
    /// The run may be claimed again when it is due.
    Resumed,
    /// The run was not paused.
    NotPaused,
    /// The run has ended, with this status.
    Ended(RunStatus),
    /// No run has this id.
    Unknown,
}

/// The outcome of a change of the place where a run waits: of its priority, or of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceOutcome {
    /// The run waits in its new place.
    Changed,
    /// It waited there before.
    Unchanged,
    /// The run has begun, so it goes before all runs that have not: it has no priority any more.
    Begun,
    /// A worker holds the run. Nothing was changed.
    Held,
    /// The run had ended before, with this status.
    Ended(RunStatus),
    /// No run has this id.
    Unknown,
}

/// The runs that a claim got.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The claimed runs, in the order of their turns.
    pub runs: Vec<ClaimedRun>,
    /// The limited queues in which due runs may be left because the queue is full or paused, or
    /// another claim was at work on it.
    pub held_back: Vec<String>,
    /// The queues in which the claim has found a full gate.
    pub full_gates: Vec<String>,
    /// When the rate of a held-back queue lets its next run begin.
    pub next_at: Option<Timestamp>,
    /// The time of the claim.
    pub now: Timestamp,
}

/// A claimed run, as its worker receives it.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    /// The claim.
    pub claim: Claim,
    /// The lane of the run.
    pub lane: Lane,
    /// The gate behind which it waited. `None`: it waited behind no gate.
    pub gate: Option<String>,
    /// The input as JSON text.
    pub input: String,
    /// The run's `wakes`: how often something asked it to wake.
    pub wakes: i64,
    /// How often the run's worker died since the run last recorded an outcome or parked.
    pub crashes: i64,
    /// How often it died while it drove no other run.
    pub lone_crashes: i64,
    /// `true` if the run was `running`: its last worker died, or let its lease end.
    pub taken_over: bool,
    /// 1 for the first attempt of the run.
    pub attempt: i64,
    /// How often it continued as new.
    pub generation: i64,
    /// How many parents it has above it.
    pub depth: i64,
    /// The place in a distributed trace at which it was started.
    pub trace: Option<TraceContext>,
    /// The parent run.
    pub parent_run_id: Option<RunId>,
    /// When it fails if it has not ended.
    pub deadline_at: Option<Timestamp>,
    /// `true` if a cancel was requested.
    pub cancel_requested: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Timestamp,
    /// When this claim ends unless it is renewed.
    pub lease_until: Timestamp,
    /// Why the run was parked, if that was not an ordinary wait.
    pub error: Option<StoredError>,
    /// Why this program does not understand the row. The run must not be driven.
    pub unreadable: Option<String>,
}
