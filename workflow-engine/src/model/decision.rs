use std::fmt;

use serde::{Deserialize, Serialize};

/// The answer to an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// `true` if it was approved, `false` if it was rejected.
    pub approved: bool,
    /// The person that decided, as the application names them.
    pub by: String,
    /// A note by that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Decision {
    /// Creates a decision without a note. Internal: applications decide through the client.
    #[doc(hidden)]
    #[must_use]
    pub fn new(approved: bool, by: String) -> Self {
        Self { approved, by, note: None }
    }
}

impl fmt::Display for Decision {
    /// Writes what was decided and by which person, like "approved by ann". The note is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.approved { "approved" } else { "rejected" };
        write!(f, "{verb} by {}", self.by)
    }
}
