//! Plain data and the rules that hold for it. No async, no SQL, nothing from the rest of the crate.

mod clock;
mod effect;
mod id;
mod name;
mod rerun;
mod retry;
mod run;
mod run_filter;
mod seed;
mod signal;
mod signal_name;
mod start_time;
mod step_attempt;
mod stored_error;
mod timestamp;
mod typed_payload;
mod wait_note;

pub use clock::Clock;
pub use effect::Effect;
pub use id::{Claim, RunId, WorkerId};
pub(crate) use name::check_scope;
pub use name::{InvalidName, NameSubject, check_name, check_queue, check_tag};
pub(crate) use rerun::{StepChoice, fork_position};
pub use rerun::{attempted_again, retry_of_run};
pub use retry::Retry;
pub use run::{Lane, NewRun, OnParentEnd, Parent, Run, RunStatus};
pub use run_filter::RunFilter;
pub(crate) use seed::{derived_fraction, derived_run_id, derived_u64, derived_uuid, in_generation};
pub use signal::{InboxSignal, NewSignal, SignalKey, SignalOutcome};
pub use signal_name::{NamesSignal, Signal};
pub use start_time::StartTime;
pub use step_attempt::{AttemptStatus, StepAttempt, StepKind};
pub use stored_error::{ErrorKind, StoredError};
pub use timestamp::Timestamp;
pub use typed_payload::TypedPayload;
pub(crate) use wait_note::{WaitNote, approval_signal};
