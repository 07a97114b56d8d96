use std::fmt;

use super::Timestamp;
use super::hidden::Hidden;

/// The row of a schedule. A store knows what it needs to find the row, and the rest is text.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// The name.
    pub name: String,
    /// A random number that is new with each change of the row. A change says which one it has
    /// seen, and changes nothing if the row has another one.
    pub revision: i64,
    /// When a worker has to look at the schedule.
    pub available_at: Timestamp,
    /// The input of the runs as JSON text. `None`: the code of a worker computes it, so only such a
    /// worker can fire the schedule.
    pub input: Option<String>,
    /// The declaration and the state, as JSON text.
    pub record: String,
}

impl StoredSchedule {
    /// Returns a revision that no row has had.
    #[must_use]
    pub fn new_revision() -> i64 {
        fastrand::i64(1..)
    }
}

/// Shows the sizes of texts, because Debug output is logged.
impl fmt::Debug for StoredSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSchedule")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .field("available_at", &self.available_at)
            .field("input", &self.input.as_deref().map(Hidden::new))
            .field("record", &Hidden::new(&self.record))
            .finish()
    }
}
