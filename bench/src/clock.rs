//! The host's clock, in the unit of the tables.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in microseconds since 1970.
pub(crate) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
