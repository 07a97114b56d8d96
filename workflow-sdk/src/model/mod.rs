//! Plain data and the rules that hold for it. No async, no SQL, nothing from the rest of the crate.

mod clock;
mod effect;
mod id;
mod name;
mod retry;
mod run;
mod run_filter;
mod run_history;
mod seed;
mod start_time;
mod step_attempt;
mod stored_error;
mod timestamp;
mod typed_payload;

pub use clock::Clock;
pub use effect::Effect;
pub use id::{Claim, RunId, WorkerId};
pub use name::{InvalidName, NameSubject, check_name, check_queue, check_tag};
pub use retry::Retry;
pub use run::{Lane, NewRun, OnParentEnd, Parent, Run, RunStatus};
pub use run_filter::RunFilter;
pub use run_history::{HistoryError, RecordedRun, RunHistory};
pub(crate) use seed::{derived_fraction, derived_u64, derived_uuid};
pub use start_time::StartTime;
pub use step_attempt::{AttemptStatus, StepAttempt, StepKind};
pub use stored_error::{ErrorKind, StoredError};
pub use timestamp::Timestamp;
pub use typed_payload::TypedPayload;
