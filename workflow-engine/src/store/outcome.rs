use crate::model::{Claim, Lane, RunId, RunStatus, SignalOutcome, StoredError, Timestamp};

use super::DatabaseError;

/// What became of a write.
#[derive(Debug)]
pub enum Outcome {
    /// Done.
    Applied,
    /// It was done before: the reply to an earlier commit of the same write was lost.
    Duplicate,
    /// The claim is not the run's current one. Nothing was changed.
    Lost,
    /// Nothing was changed, and never will be by this write.
    Refused(DatabaseError),
    /// Of [`Write::Start`](super::Write::Start) and [`Write::Fork`](super::Write::Fork).
    Started(StartOutcome),
    /// Of [`Write::Signal`](super::Write::Signal).
    Signaled(SignalOutcome),
    /// Of [`Write::Attempt`](super::Write::Attempt) that starts a child: a run of this workflow and key exists already, and is not that child.
    /// Neither the row nor the child was written.
    KeyTaken {
        /// That run.
        id: RunId,
    },
    /// Of [`Write::Cancel`](super::Write::Cancel) and [`Write::Terminate`](super::Write::Terminate).
    Canceled(CancelOutcome),
    /// Of [`Write::Pause`](super::Write::Pause).
    Paused(PauseOutcome),
    /// Of [`Write::Resume`](super::Write::Resume).
    Resumed(ResumeOutcome),
    /// Of [`Write::Claim`](super::Write::Claim).
    Claimed(Claimed),
    /// Of [`Write::Disown`](super::Write::Disown) and [`Write::Expire`](super::Write::Expire): how many runs changed.
    Changed(u64),
}

impl Outcome {
    /// This error, which several writes have in common.
    pub fn refused(error: &DatabaseError) -> Self {
        Self::Refused(DatabaseError::new(error.kind, error.operation, error.source.to_string()))
    }

    /// Whether it is sure that neither this commit of the write nor an earlier one, whose reply was lost, changed anything
    /// that somebody may still have to be told of.
    #[must_use]
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Lost | Self::Refused(_) | Self::KeyTaken { .. } | Self::Changed(0) => true,
            // What was there before may come from a commit whose reply was lost.
            Self::Applied | Self::Duplicate | Self::Started(_) | Self::Signaled(_) => false,
            Self::Canceled(_) | Self::Paused(_) | Self::Resumed(_) | Self::Claimed(_) | Self::Changed(_) => false,
        }
    }
}

impl Outcome {
    /// Which outcome it is, for a text: its Debug shows payloads.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::Lost => "lost",
            Self::Refused(_) => "refused",
            Self::Started(_) => "started",
            Self::Signaled(_) => "signaled",
            Self::KeyTaken { .. } => "key taken",
            Self::Canceled(_) => "canceled",
            Self::Paused(_) => "paused",
            Self::Resumed(_) => "resumed",
            Self::Claimed(_) => "claimed",
            Self::Changed(_) => "changed",
        }
    }
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// The run exists now.
    Created,
    /// A run of this workflow and key exists already; nothing was changed.
    Existing {
        /// That run.
        id: RunId,
        /// Its input as JSON text.
        input: String,
    },
    /// The same, but that run has continued as new: what it was started with is not known any more.
    Continued {
        /// That run.
        id: RunId,
    },
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The run is canceled now: no worker had ever claimed it, or it was terminated.
    Canceled,
    /// The run was asked to end: it cleans up, for the grace at most.
    Requested,
    /// The run had ended before, with this status.
    Ended(RunStatus),
    /// There is no such run.
    Unknown,
}

/// What became of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PauseOutcome {
    /// No worker holds the run, and none will before it is resumed.
    Paused,
    /// A worker holds the run: it lets the steps that run end, begins no others and gives the run back.
    Requested,
    /// The run had ended before, with this status.
    Ended(RunStatus),
    /// There is no such run.
    Unknown,
}

/// What became of a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeOutcome {
    /// The run may be claimed again, when it is due.
    Resumed,
    /// The run was not paused.
    NotPaused,
    /// The run has ended, with this status.
    Ended(RunStatus),
    /// There is no such run.
    Unknown,
}

/// What a claim found.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The claimed runs, the longest due first.
    pub runs: Vec<ClaimedRun>,
    /// The time of the claim.
    pub now: Timestamp,
}

/// A run as its new owner gets it.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    /// The claim.
    pub claim: Claim,
    /// Where it came from.
    pub lane: Lane,
    /// The input as JSON text.
    pub input: String,
    /// How often something asked it to wake.
    pub wakes: i64,
    /// How often its worker died since it last parked, this claim's finding included.
    pub crashes: i64,
    /// 1 for the first attempt of the run.
    pub attempt: i64,
    /// How often it continued as new.
    pub generation: i64,
    /// How many parents it has above it.
    pub depth: i64,
    /// The run that waits, or waited, for it.
    pub parent_run_id: Option<RunId>,
    /// When it fails if it has not ended.
    pub deadline_at: Option<Timestamp>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// When it was first claimed.
    pub started_at: Timestamp,
    /// When this claim ends unless renewed.
    pub lease_until: Timestamp,
    /// Why it was parked, where that was no ordinary wait.
    pub error: Option<StoredError>,
}
