//! Plain data and the rules that hold for it. Uses neither async code nor SQL, and nothing from the
//! other modules of this crate.

mod audit;
mod awaited_step;
mod breaker;
mod bulk;
mod circuit;
mod clock;
mod decision;
mod decode_error;
#[cfg(feature = "openapi")]
mod duration_document;
mod effect;
mod emission;
mod failure_group;
mod fork;
mod hidden;
mod id;
mod limit;
mod name;
mod payload_codec;
mod priority;
mod queue;
mod rate;
mod redaction;
mod retention;
mod retry;
mod run;
mod run_conditions;
mod run_filter;
mod run_history;
mod run_retry;
mod run_summary;
mod seed;
mod signal;
mod signal_name;
mod single;
mod source_line;
mod start_time;
mod statistics;
mod step_attempt;
mod stored_error;
mod stored_schedule;
mod system;
mod timestamp;
mod trace_context;
mod typed_payload;
mod unreadable;
mod wait_note;

pub use audit::{AuditId, AuditRow, NewAudit};
pub use awaited_step::AwaitedStep;
pub use breaker::{Breaker, InvalidBreaker};
pub use bulk::{BulkCounts, BulkFailure, BulkId, BulkProgress, BulkRecord, BulkStatus, NewBulk};
pub use circuit::{Admission, Circuit, CircuitChange, ServiceReport};
pub use clock::Clock;
pub use decision::Decision;
pub use decode_error::{DECODER_PANICKED, unquoted, without_values};
#[cfg(feature = "openapi")]
pub use duration_document::DurationDocument;
pub use effect::Effect;
pub use emission::{
    EMISSION_SIGNAL, EVENT_SIGNAL, EmittingStep, EventName, EventWait, LeftWait, NewEmission, busy_event_delay,
    event_of_signal, event_signal,
};
pub use failure_group::{FailureGroup, FailureRow};
pub use fork::{ForkPoint, find_fork_point, rows_kept_by_fork};
pub use id::{Claim, RunId, WorkerId};
pub use limit::{LimitChange, LimitRecord, LimitRule, SeatLine, SeatWait};
pub use name::check_scope;
pub use name::{
    InvalidGate, InvalidName, InvalidTags, MAX_TAG_BYTES, MAX_TAGS, NameSubject, check_gate_of, check_name,
    check_queue, check_tags, is_control,
};
pub use payload_codec::{CodecError, CodedPayload, PayloadCodec, PayloadContext, PayloadPlace};
pub use priority::{Priority, Rank};
pub use queue::{FullQueue, GateLimits, QueueChange, QueueLimits, QueuePause, QueueRecord};
pub use rate::{InvalidRate, Rate};
pub use retention::{Retain, Retention};
pub use retry::Retry;
pub use run::{KeyReuse, Lane, NewRun, OnParentEnd, Parent, Run, RunStatus};
pub use run_conditions::{
    Blocker, DurationSpan, MessageCondition, NameCondition, NamePattern, RunConditions, TagCondition, TimeSpan,
};
pub use run_filter::RunFilter;
pub use run_history::{HistoryError, RecordedRun, RunHistory};
pub use run_retry::{run_retry_delay, steps_to_retry};
pub use run_summary::{ErrorSummary, RunNow, RunSummary};
pub use seed::{derived_fraction, derived_run_id, derived_u64, derived_uuid, in_generation};
pub use signal::{AcceptedSignal, DEFAULT_SIGNAL_LIMIT, InboxSignal, NewSignal, SignalKey, SignalOutcome};
pub use signal_name::{NamesSignal, Signal};
pub use single::{MovedRun, NewSingle, SingleKey, SingleUntil, WhenTaken};
pub use source_line::{SourceLine, step_name};
pub use start_time::StartTime;
pub use statistics::{Durations, RunStatistics, StatisticsRow, StatisticsSpan};
pub use step_attempt::RUNNING_ROW_DELAY;
pub use step_attempt::{AttemptStatus, StepAttempt, StepKind};
pub use stored_error::{ErrorKind, StoredError};
pub use stored_schedule::StoredSchedule;
pub use system::{
    DatabaseView, MissingRights, MoveView, OpenTransactionView, PostgresView, SleepingGate, SqliteView, StandbyView,
    TableView,
};
pub use timestamp::Timestamp;
pub use trace_context::{InvalidTraceContext, TraceContext};
pub use typed_payload::TypedPayload;
pub use unreadable::{UnreadablePayload, UnreadableReason};
pub use wait_note::{DECISION_SIGNAL, WaitNote, approval_signal, decision_of, is_own_name};
