use std::fmt;

use async_trait::async_trait;

use super::DatabaseError;
use crate::model::DatabaseView;

/// Tells an operator about the database itself.
#[async_trait]
pub trait SystemStore {
    /// Reads the facts that the database has about itself. A part that the database refuses to the
    /// store's role is left out, and named in [`DatabaseView::refused`]. Reads a bounded number of
    /// rows, whatever the tables hold.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn system(&self) -> Result<DatabaseView, DatabaseError>;

    /// Returns the standby to which the store has connected. It takes no writes, also after a
    /// promotion of the server. `None`: the database takes writes.
    ///
    /// Default: `None`.
    fn standby(&self) -> Option<&Standby> {
        None
    }
}

/// A server that repeats the changes of another one, its primary, and takes none itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standby {
    /// The URL of the standby, without its password.
    pub url: String,
    /// The address of the primary as `HOST:PORT`, as it was at the connect. `None` if the role may
    /// not see it, or if the standby had no connection to its primary.
    pub primary: Option<String>,
}

impl Standby {
    /// Returns a standby. For stores.
    #[doc(hidden)]
    #[must_use]
    pub fn new(url: String, primary: Option<String>) -> Self {
        Self { url, primary }
    }
}

impl fmt::Display for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:?} is a standby", self.url)?;
        match &self.primary {
            Some(primary) => write!(f, " of {primary}"),
            None => Ok(()),
        }
    }
}
