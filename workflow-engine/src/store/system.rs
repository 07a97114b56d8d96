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
}
