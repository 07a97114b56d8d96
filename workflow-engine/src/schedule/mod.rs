//! Schedules: which occurrences a declaration has, and what to do about those that are due. Pure:
//! every function takes the time.
//!
//! | File | Purpose |
//! |---|---|
//! | `timing.rs` | the times as they are declared |
//! | `calendar.rs` | the times as they are computed: the next occurrence, the jitter |
//! | `declaration.rs` | all that is declared, and its check |
//! | `record.rs` | all that is stored about a schedule, and its changes |
//! | `fire.rs` | the decision about due occurrences |
//! | `zone_data.rs` | the source of the rules of time zones, for operators |
//!
//! croner and jiff are used here and nowhere else, and no signature has a type of theirs.

mod calendar;
#[cfg(test)]
mod calendar_tests;
mod declaration;
mod fire;
#[cfg(test)]
mod fire_tests;
mod invalid_schedule;
mod occurrence;
mod policy;
mod record;
#[cfg(test)]
mod record_tests;
mod state;
mod timing;
mod zone_data;

pub use calendar::Calendar;
pub use declaration::{Declaration, MAX_SCHEDULE_NAME_BYTES};
pub use fire::{EndsOfRuns, Firing, fire};
pub use invalid_schedule::InvalidSchedule;
pub use occurrence::{OCCURRENCE_TAG, Occurrence, SCHEDULE_TAG};
pub use policy::{CatchUp, Overlap};
pub use record::{Conflict, Origin, Record, UnreadableSchedule};
pub use state::{PauseCause, SchedulePause, ScheduleState, Waiting};
pub use timing::Timing;
pub use zone_data::ZoneDataView;
