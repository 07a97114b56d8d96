use workflow_engine::model::RunId;
use workflow_engine::store::{DeleteOutcome, DeleteWrite, DeletedRun, Outcome, Write};

use super::{Client, ClientError};

impl Client {
    /// Deletes an ended run, in one commit with everything that belongs to it: its history, its
    /// signals, published values and streams, its tags and its key. Returns the number of deleted
    /// rows.
    ///
    /// Nothing of the run can be read afterwards, and its key may be used again: a start with it
    /// begins a new run. Children, forks and the parent of the run stay. A schedule counts a
    /// deleted run as ended.
    ///
    /// A run cannot be deleted before it has ended, and a child not before its parent has received
    /// its result or ended. If a parent has failed and is [tried again](Client::retry), its wait
    /// for the deleted child fails with kind [`ChildMissing`](crate::ErrorKind::ChildMissing).
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`] if there is no such run, or if it was deleted before.
    /// [`ClientError::NotEnded`], [`ClientError::StillAwaited`], [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not have been deleted. Deleting it again is
    /// safe.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     Ok(order)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(checkout, "order 42".to_string()).key("order-42").await?;
    /// assert!(matches!(client.delete(run.id()).await, Err(ClientError::NotEnded { .. })));
    ///
    /// client.cancel(run.id()).await?;
    /// let deleted = client.delete(run.id()).await?;
    /// assert_eq!((deleted.attempts, deleted.signals), (0, 0));
    /// assert!(matches!(run.status().await, Err(ClientError::UnknownRun { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, id: RunId) -> Result<DeletedRun, ClientError> {
        let write = DeleteWrite { run_id: id, ended_before: None };
        match self.commit(Write::Delete(write)).await? {
            Outcome::Deleted(DeleteOutcome::Deleted(rows)) => Ok(rows),
            Outcome::Deleted(DeleteOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Deleted(DeleteOutcome::NotEnded(status)) => Err(ClientError::NotEnded { run_id: id, status }),
            Outcome::Deleted(DeleteOutcome::Awaited { parent }) => {
                Err(ClientError::StillAwaited { run_id: id, parent })
            }
            other => Err(ClientError::unexpected(other)),
        }
    }
}
