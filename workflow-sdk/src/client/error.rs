use std::time::Duration;

use super::InvalidSingle;
use crate::transaction::TransactionOver;
use workflow_engine::executor::ExecutorStopped;
use workflow_engine::model::{
    FullQueue, InvalidGate, InvalidName, InvalidRate, InvalidTags, RunId, RunStatus, StoredError, Timestamp,
    UnreadablePayload,
};
use workflow_engine::runtime::PayloadError;
use workflow_engine::schedule::{InvalidSchedule, UnreadableSchedule};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, Standby};

/// Why a call of a client failed. Nothing was changed unless the variant says otherwise. Every call
/// that needs the database can fail with [`Database`](Self::Database) and
/// [`TimedOut`](Self::TimedOut), every write with [`Stopped`](Self::Stopped).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// This database has no run with this id: it never had one, or the run was deleted.
    #[error(
        "there is no run {run_id} in this database; it may have been deleted: check the id, and that the client is \
         connected to the database of the run"
    )]
    UnknownRun {
        /// The id.
        run_id: RunId,
    },
    /// The key is taken by a run with another input.
    #[error(
        "key {key:?} of workflow {workflow:?} belongs to run {run_id}, which has another input; \
         use another key for another input, or look at that run"
    )]
    KeyConflict {
        /// The name of the workflow.
        workflow: String,
        /// The key.
        key: String,
        /// The run that has the key.
        run_id: RunId,
    },
    /// The rate of a queue, of its gates or of a limit is out of range. The error says what is
    /// wrong.
    #[error(transparent)]
    Rate(#[from] InvalidRate),
    /// The queue of a start, or its gate, takes no further run:
    /// [`QueueLimits::max_waiting`](crate::QueueLimits::max_waiting). The error names the queue,
    /// the gate if that is full, and the bound.
    #[error(transparent)]
    QueueFull(#[from] FullQueue),
    /// Another run has the single key, and the start is one with
    /// [`Single::Refuse`](crate::Single::Refuse).
    #[error(
        "run {run_id} of workflow {workflow:?} has the single key {key:?} and has not ended; wait for its end, cancel \
         it, or start with .on_conflict(Single::Replace)"
    )]
    SingleTaken {
        /// The name of the workflow.
        workflow: String,
        /// The key.
        key: String,
        /// The run that has the key.
        run_id: RunId,
    },
    /// The run cannot be tried again while another run has its single key.
    #[error(
        "run {run_id} cannot be tried again, because run {holder} has its single key {key:?} now; try it again when \
         that run has ended, or cancel that run first"
    )]
    SingleTakenSince {
        /// The run that was to be tried again.
        run_id: RunId,
        /// The key.
        key: String,
        /// The run that has the key.
        holder: RunId,
    },
    /// Another transaction holds this single key, because it starts a run with it, and has not
    /// ended for 30 seconds. Nothing was started.
    #[error(
        "no run of workflow {workflow:?} with the single key {key:?} was started: another transaction has held the key \
         for {after:?}; end that transaction, then start the run again"
    )]
    SingleBusy {
        /// The name of the workflow.
        workflow: String,
        /// The key.
        key: String,
        /// How long the call waited.
        after: Duration,
    },
    /// The options of a single, debounced or throttled start exclude each other or have a bad time.
    #[error(transparent)]
    Single(#[from] InvalidSingle),
    /// The run does not wait for this approval.
    #[error(
        "run {run_id} does not wait for approval {key:?}; {}",
        if asked.is_empty() { "it waits for no approval at all".into() } else { format!("it waits for {asked:?}") }
    )]
    NotAsked {
        /// The run.
        run_id: RunId,
        /// The key of the approval that was to be decided.
        key: String,
        /// The keys of the approvals that the run waits for.
        asked: Vec<String>,
    },
    /// A name cannot be stored.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The attribute of the workflow computes a gate that cannot be stored. The error names both.
    #[error(transparent)]
    Gate(#[from] InvalidGate),
    /// There are too many tags, or they are too long.
    #[error(transparent)]
    Tags(InvalidTags),
    /// The inbox of the run holds as many signals as [`Connect::signal_limit`] allows.
    ///
    /// [`Connect::signal_limit`]: crate::Connect::signal_limit
    #[error(
        "the inbox of run {run_id} is full: {limit} signals wait in it; let the run take some, or raise signal_limit"
    )]
    InboxFull {
        /// The run.
        run_id: RunId,
        /// The limit.
        limit: u32,
    },
    /// The input cannot be stored.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A fork names a step that the run has no record of.
    #[error("run {run_id} has no step {key:?}{}", did_you_mean(near))]
    UnknownStep {
        /// The run that was to be forked.
        run_id: RunId,
        /// The key.
        key: String,
        /// The most similar keys that the run has; at most 5.
        near: Vec<String>,
    },
    /// Only a failed run can be tried again.
    #[error(
        "run {run_id} {}, and only a failed run can be tried again; \
         fork it to do a part of it anew, or wait for its end",
        standing(*.status)
    )]
    NotFailed {
        /// The run.
        run_id: RunId,
        /// The status of the run.
        status: RunStatus,
    },
    /// Only a run that has ended can be deleted.
    #[error(
        "run {run_id} is {status}, and only a run that has ended can be deleted; wait for its end, or cancel it first"
    )]
    NotEnded {
        /// The run.
        run_id: RunId,
        /// The status of the run.
        status: RunStatus,
    },
    /// The run cannot be deleted, because its parent has not received its result yet.
    #[error(
        "run {run_id} cannot be deleted, because its parent, run {parent}, has not received its result yet; delete it \
         once the parent has gone on or has ended"
    )]
    StillAwaited {
        /// The run.
        run_id: RunId,
        /// The parent, which has not ended.
        parent: RunId,
    },
    /// The run has run compensations, so it cannot continue from the steps that they undid.
    #[error(
        "run {run_id} has undone steps by their compensations, so it cannot go on where it failed; \
         fork it from the first step that is to be done again"
    )]
    Compensated {
        /// The run.
        run_id: RunId,
    },
    /// The run would fail at once because its deadline has passed.
    #[error("the deadline of run {run_id} passed at {deadline}; try it again with another one: .deadline(..)")]
    DeadlinePassed {
        /// The run.
        run_id: RunId,
        /// The deadline.
        deadline: Timestamp,
    },
    /// The run failed.
    #[error("run {run_id} failed: {error}")]
    RunFailed {
        /// The run.
        run_id: RunId,
        /// Its error.
        error: StoredError,
    },
    /// The run was canceled.
    #[error("run {run_id} was canceled")]
    RunCanceled {
        /// The run.
        run_id: RunId,
    },
    /// The run succeeded, but its output does not decode as the requested type.
    #[error(
        "the output of run {run_id} does not decode as {type_name}: {source}; ask for the type that the workflow returns, or for serde_json::Value"
    )]
    Decode {
        /// The run.
        run_id: RunId,
        /// The Rust type that was asked for.
        type_name: &'static str,
        /// serde_json's error.
        source: serde_json::Error,
    },
    /// A value that the run published or emitted does not decode as the requested type.
    #[error(
        "{what} of run {run_id} does not decode as {type_name}: {source}; ask for the type that the workflow hands over"
    )]
    DecodeLive {
        /// The run.
        run_id: RunId,
        /// The name of the published value, or the stream and the number of the item.
        what: String,
        /// The Rust type that was asked for.
        type_name: &'static str,
        /// serde_json's error.
        source: serde_json::Error,
    },
    /// A schedule is refused. The error names the refused value and says what to use instead.
    #[error(transparent)]
    Schedule(#[from] InvalidSchedule),
    /// There is no schedule of this name.
    #[error(
        "there is no schedule {name:?} in this database; create it, or start a worker that declares it; \
         Client::schedules lists those that exist"
    )]
    UnknownSchedule {
        /// The name.
        name: String,
    },
    /// A schedule of this name exists.
    #[error("a schedule {name:?} exists already; use another name, or Client::schedule(..).update(..)")]
    ScheduleExists {
        /// The name.
        name: String,
    },
    /// The code of a worker declares the workflow and the input of this schedule.
    #[error(
        "the code of a worker declares what schedule {name:?} starts, so only its times and policies can be changed \
         here; leave .start(..) out, or change the code"
    )]
    ScheduleOfCode {
        /// The name.
        name: String,
    },
    /// The input of a schedule is computed by code, and this call needs a fixed one.
    #[error(
        "the code of a worker computes the input of schedule {name:?}; declare it with Worker::schedule, or give an \
         input here: .start(..) for a schedule, .input(..) for a trigger, .input_with(..) for a backfill"
    )]
    ComputedInput {
        /// The name.
        name: String,
    },
    /// A backfill would start more runs than its limit allows. Nothing was started.
    #[error(
        "a backfill of schedule {name:?} would start more than {max} runs, the first ones of which are due at {first} \
         and later; choose a shorter time, or raise .max(..)"
    )]
    LargeBackfill {
        /// The name.
        name: String,
        /// The limit.
        max: u32,
        /// The first occurrence.
        first: Timestamp,
    },
    /// A backfill ends before it begins, or at its beginning. Nothing was started.
    #[error(
        "the backfill of schedule {name:?} after {after} and up to {until} has no time in it; give an end that is \
         later than the beginning"
    )]
    EmptyBackfill {
        /// The name.
        name: String,
        /// The beginning.
        after: Timestamp,
        /// The end.
        until: Timestamp,
    },
    /// A later release has written the schedule.
    #[error(transparent)]
    UnreadableSchedule(#[from] UnreadableSchedule),
    /// The transaction belongs to another kind of database than the client.
    #[error(
        "the client is connected to {client}, but the transaction is one of {transaction}; use a transaction on the client's own database"
    )]
    OtherDatabase {
        /// The kind of the client's database.
        client: &'static str,
        /// The kind of the transaction's database.
        transaction: &'static str,
    },
    /// An event cannot be emitted in a transaction of this isolation level, because it hides waits
    /// that have begun since its first statement. Only PostgreSQL has such levels.
    #[error(
        "an event cannot be emitted in a transaction of the isolation level {level:?}, which does not see every run \
         that waits; begin the transaction with READ COMMITTED, or emit the event after its commit"
    )]
    Isolation {
        /// The level, as the database names it.
        level: String,
    },
    /// Another transaction holds this event, because it has emitted the event or registers a wait
    /// for it, and has not ended for 30 seconds. Nothing was emitted.
    #[error(
        "event {name:?} with key {key:?} was not emitted: another transaction has held it for {after:?}; end that \
         transaction, then emit the event again"
    )]
    EventBusy {
        /// The name of the event.
        name: String,
        /// The key of the event.
        key: String,
        /// How long the call waited.
        after: Duration,
    },
    /// The transaction of a step was used after the end of its body.
    #[error(transparent)]
    TransactionOver(#[from] TransactionOver),
    /// The codec of this program cannot decode a payload that the call needs.
    #[error(transparent)]
    Unreadable(#[from] UnreadablePayload),
    /// The database did not answer within [`Connect::call_timeout`].
    ///
    /// [`Connect::call_timeout`]: crate::Connect::call_timeout
    #[error(
        "the database did not answer within {after:?}; {}",
        if *effect_unknown {
            "the write may still take effect: repeat it with the same key, or look whether it did"
        } else {
            "this call changes nothing"
        }
    )]
    TimedOut {
        /// How long the call waited.
        after: Duration,
        /// `true` if the write was queued already: it may have had its effect, or may have it
        /// later. `false` for a read, and for a write that was not queued.
        effect_unknown: bool,
    },
    /// The database answered with an error. If its kind is
    /// [`Unreachable`](DatabaseErrorKind::Unreachable) or [`Busy`](DatabaseErrorKind::Busy), the
    /// call may or may not have had its effect.
    #[error(transparent)]
    Database(DatabaseError),
    /// The client is connected to a standby, which takes no changes: see
    /// [`Connect::allow_standby`](crate::Connect::allow_standby). Nothing was sent.
    #[error("{0} and takes no changes; send them to the primary")]
    Standby(Standby),
    /// The executor of this process has stopped.
    #[error(transparent)]
    Stopped(#[from] ExecutorStopped),
}

impl ClientError {
    /// Turns a refusal, or an outcome that does not belong to the write, into an error.
    pub(crate) fn unexpected(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Refused(error) => error.into(),
            Outcome::QueueFull(full) => full.into(),
            other => Self::Database(DatabaseError::new(
                DatabaseErrorKind::Other,
                "commit",
                format!("the store answered with another write's outcome: {}", other.name()),
            )),
        }
    }
}

impl From<DatabaseError> for ClientError {
    fn from(error: DatabaseError) -> Self {
        match error.source.downcast::<UnreadablePayload>() {
            Ok(unreadable) => Self::Unreadable(*unreadable),
            Err(source) => Self::Database(DatabaseError { source, ..error }),
        }
    }
}

impl From<InvalidTags> for ClientError {
    fn from(error: InvalidTags) -> Self {
        match error {
            InvalidTags::Name(error) => Self::Name(error),
            error => Self::Tags(error),
        }
    }
}

/// Returns what a run is or has done, by its status.
fn standing(status: RunStatus) -> String {
    if status == RunStatus::Succeeded { "has succeeded".into() } else { format!("is {status}") }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        return ", for it has no history; fork it without .from(..)".into();
    }
    let near: Vec<String> = near.iter().map(|key| format!("{key:?}")).collect();
    format!("; did you mean {}?", near.join(" or "))
}
