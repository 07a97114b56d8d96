//! The kit for authors' tests: virtual time, histories, crashes everywhere, other orders. No database is needed, and no test
//! here may take time.

mod crashes;
mod histories;
mod logs;
mod orders;
mod time;

use std::time::Duration;

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(24 * 3600);
