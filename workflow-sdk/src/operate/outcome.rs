use serde::{Deserialize, Serialize};

use workflow_engine::model::{BulkId, RunId, RunStatus, Timestamp};

use super::query::nearest;

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Done {
    /// The outcome, for programs.
    #[serde(flatten)]
    pub outcome: OrderOutcome,
    /// One sentence for people, with the warning.
    pub message: String,
    /// Why a change that was made may not be the one that was meant: no worker, run or setting had
    /// the name of its queue or limit before. `None`: nothing speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The outcome of an order, for programs. Its text is an object with the name of the outcome:
/// `{"outcome":"already_ended","status":"failed"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderOutcome {
    /// A run was started, as a fork or by a schedule too.
    Started {
        /// The run.
        run: RunId,
    },
    /// A run with this key exists, and nothing was changed.
    Existed {
        /// The run.
        run: RunId,
    },
    /// The run is canceled.
    Canceled,
    /// The run was asked to end, and cleans up.
    CancelRequested,
    /// The run was asked to end before, and nothing was changed.
    AlreadyRequested {
        /// When that was.
        at: Timestamp,
    },
    /// The run had ended before, and nothing was changed.
    AlreadyEnded {
        /// Its status.
        status: RunStatus,
    },
    /// The run is paused.
    Paused,
    /// A worker holds the run, and gives it back once its running steps have ended.
    PauseRequested,
    /// The run goes on when it is due.
    Resumed,
    /// It was not paused, and nothing was changed.
    NotPaused,
    /// The run has begun, so it goes before runs that have not, and has no priority any more.
    HasBegun,
    /// The failed run is tried again.
    Retried,
    /// The signal is in the inbox of the run.
    Signaled,
    /// A signal with this key was accepted before, and nothing was changed.
    AlreadySignaled {
        /// When that was.
        at: Timestamp,
    },
    /// The decision goes to the run.
    Decided,
    /// The approval was decided before, and nothing was changed.
    AlreadyDecided {
        /// When that was.
        at: Timestamp,
        /// `true` if it was approved, if this program can read the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<bool>,
        /// The person of the decision, if this program can read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run is gone, with everything that belonged to it.
    Deleted {
        /// The number of rows of its history.
        attempts: u64,
        /// The number of signals in its inbox.
        signals: u64,
    },
    /// The event was delivered.
    Emitted {
        /// The number of runs that waited for it. With 0, nothing was changed.
        runs: u64,
    },
    /// The runs of past occurrences were started.
    Backfilled {
        /// The number of runs that were started. With 0, nothing was changed.
        started: u32,
        /// The number of occurrences that had a run already.
        existing: u32,
    },
    /// A bulk operation was ordered, and runs in the background.
    BulkStarted {
        /// The operation.
        bulk: BulkId,
    },
    /// A bulk operation with this id was ordered before, and nothing was changed.
    BulkExisted {
        /// The operation.
        bulk: BulkId,
    },
    /// The bulk operation changes no further run.
    BulkStopped,
    /// The queue, limit, schedule or place of the run is as the order wants it.
    Changed,
    /// It was so before, and nothing was changed.
    Unchanged,
}

impl OrderOutcome {
    /// Returns the outcome of this verb with its sentence about this target.
    pub(super) fn about(self, verb: &str, target: &str) -> Done {
        let subject = target.replacen(':', " ", 1);
        let message = match &self {
            Self::Started { run } => format!("run {run} was started, for {subject}"),
            Self::Existed { run } => format!("run {run} has this key; nothing was started"),
            Self::Canceled => format!("{subject} is canceled"),
            Self::CancelRequested => format!("{subject} was asked to end, and cleans up"),
            Self::AlreadyRequested { at } => {
                format!("{subject} was asked to end before, at {at}; nothing was changed")
            }
            Self::AlreadyEnded { status } => format!("{subject} had ended before ({status}); nothing was changed"),
            Self::Paused => format!("{subject} is paused"),
            Self::PauseRequested => format!("{subject} pauses once its running steps have ended"),
            Self::Resumed => format!("{subject} goes on when it is due"),
            Self::NotPaused => format!("{subject} was not paused; nothing was changed"),
            Self::HasBegun => format!("{subject} has begun, and goes before runs that have not; nothing was changed"),
            Self::Retried => format!("{subject} is tried again"),
            Self::Signaled => format!("the signal is in the inbox of {subject}"),
            Self::AlreadySignaled { at } => {
                format!("{subject} received a signal with this key at {at}; nothing was changed")
            }
            Self::Decided => format!("the decision goes to {subject}"),
            Self::AlreadyDecided { at, approved, by } => {
                let verdict = match approved {
                    Some(true) => "approved",
                    Some(false) => "rejected",
                    None => "decided",
                };
                let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
                format!("this was {verdict}{by} at {at}; nothing was changed")
            }
            Self::Deleted { attempts, signals } => {
                format!("{subject} is deleted, with {attempts} rows of history and {signals} signals")
            }
            Self::Emitted { runs: 0 } => format!("no run waits for {subject}; nothing was changed"),
            Self::Emitted { runs: 1 } => format!("{subject} was delivered to one run"),
            Self::Emitted { runs } => format!("{subject} was delivered to {runs} runs"),
            Self::Backfilled { started: 0, existing: 0 } => {
                format!("{subject} has no occurrence in this time; nothing was changed")
            }
            Self::Backfilled { started, existing } => {
                format!("{subject}: runs started: {started}; occurrences that had a run before: {existing}")
            }
            Self::BulkStarted { bulk } => format!("bulk operation {bulk} was ordered"),
            Self::BulkExisted { bulk } => format!("bulk operation {bulk} was ordered before; nothing was changed"),
            Self::BulkStopped => format!("{subject} is stopped; the runs that it has changed stay as they are"),
            Self::Changed => match verb {
                "schedule.create" => format!("{subject} is created"),
                "schedule.delete" => format!("{subject} is deleted"),
                "schedule.pause" | "queue.pause" => format!("{subject} is paused"),
                "schedule.resume" | "queue.resume" => format!("{subject} goes on"),
                _ => format!("{subject} is changed"),
            },
            Self::Unchanged => format!("{subject} is as it was; nothing was changed"),
        };
        Done { outcome: self, message, warning: None }
    }
}

impl Done {
    /// Returns the answer to a start whose key has this run.
    #[must_use]
    pub fn existed(run: RunId) -> Self {
        OrderOutcome::Existed { run }.about("run.start", "")
    }

    /// Adds a warning to the answer, if there is one.
    pub(super) fn warning(self, warning: Option<String>) -> Self {
        match warning {
            Some(warning) => Self { message: format!("{}; {warning}", self.message), warning: Some(warning), ..self },
            None => self,
        }
    }
}

/// Returns the warning about a name that was not known before, with the nearest known one.
pub(super) fn warning_about<'n>(what: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let advice = match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "the change holds from its first use on".to_owned(),
    };
    format!("{what} {name:?} was not known before: {advice}")
}
