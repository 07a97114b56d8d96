//! Tests of the test kit for authors: virtual time, histories, crashes at every commit, and other
//! orders of concurrent steps. They need no database and must be fast.

mod crashes;
mod events;
mod histories;
mod limits;
mod logs;
mod orders;
mod time;

use std::time::Duration;

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(24 * 3600);
