use std::future::{Future, IntoFuture};
use std::pin::Pin;

use workflow_engine::model::RunId;
use workflow_engine::store::{CancelOutcome, Outcome, Write};

use super::within::commit_within;
use super::{Client, ClientError};

/// A builder for the cancel of a run: await it.
#[must_use = "no run is canceled until this is awaited"]
#[derive(Clone, Debug)]
pub struct Cancel {
    client: Client,
    run: RunId,
}

impl Cancel {
    pub(super) fn new(client: Client, run: RunId) -> Self {
        Self { client, run }
    }

    /// Cancels the run in a transaction of the application, on the client's database: the cancel
    /// exists if and only if that transaction commits. A worker that holds the run learns of it at
    /// its next heartbeat after the commit.
    ///
    /// # Errors
    /// See [`Client::cancel`]; also [`ClientError::OtherDatabase`]. After an error of the database,
    /// roll the transaction back.
    pub async fn within<T: super::ApplicationTransaction>(
        self,
        transaction: &mut T,
    ) -> Result<CancelOutcome, ClientError> {
        answer(self.run, commit_within(&self.client, transaction, &Write::Cancel(self.run)).await?)
    }
}

impl Client {
    /// Cancels a run. Returns a builder: await it, or call [`Cancel::within`] to cancel in a
    /// transaction.
    ///
    /// A run that was never claimed is canceled when this returns. Any other run is asked to end:
    /// its pending call fails once with kind [`Canceled`](crate::ErrorKind::Canceled), so that the
    /// function can clean up and its compensations run. The worker's grace limits this; default: 60
    /// s. A worker of this process learns of the cancel at once, a worker of another process within
    /// a heartbeat.
    ///
    /// A run of a workflow that no worker serves stays as it is until a worker does, or until it is
    /// terminated.
    ///
    /// A second cancel, called after the first one has returned, works like [`Client::terminate`].
    /// Two cancels at the same moment count as one.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::UnknownRun`] or [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the run may or may not have been asked to end. Look at
    /// [`Run::cancel_requested_at`](crate::Run::cancel_requested_at) before you cancel it again: a
    /// second cancel terminates it.
    pub fn cancel(&self, id: RunId) -> Cancel {
        Cancel::new(self.clone(), id)
    }

    /// Ends a run as canceled at once: no code of it runs any more, neither clean-up nor
    /// compensations. A worker of this process drops the run at once, a worker of another process
    /// within a heartbeat; its later writes are refused.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not have ended.
    ///
    /// ```
    /// use workflow_sdk::{CancelOutcome, prelude::*};
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     Ok(order)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(checkout, "order 42".to_string()).await?;
    /// assert_eq!(client.terminate(run.id()).await?, CancelOutcome::Canceled);
    /// assert_eq!(run.status().await?, RunStatus::Canceled);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn terminate(&self, id: RunId) -> Result<CancelOutcome, ClientError> {
        commit(self, id, Write::Terminate(id)).await
    }

    /// Cancels a run, and never terminates it.
    pub(crate) async fn request_cancel(&self, id: RunId) -> Result<CancelOutcome, ClientError> {
        commit(self, id, Write::Cancel(id)).await
    }
}

impl IntoFuture for Cancel {
    type Output = Result<CancelOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // The client decides which cancel is the second one. The write cannot: it is applied
            // again if its reply was lost, and that repetition is no second cancel.
            match self.client.run(self.run).await?.cancel_requested_at {
                None => self.client.request_cancel(self.run).await,
                Some(_) => self.client.terminate(self.run).await,
            }
        })
    }
}

/// Commits a write that asks a run to end, or ends it.
pub(super) async fn commit(client: &Client, run: RunId, write: Write) -> Result<CancelOutcome, ClientError> {
    answer(run, client.commit(write).await?)
}

fn answer(run_id: RunId, outcome: Outcome) -> Result<CancelOutcome, ClientError> {
    match outcome {
        Outcome::Canceled(CancelOutcome::Unknown) => Err(ClientError::UnknownRun { run_id }),
        Outcome::Canceled(outcome) => Ok(outcome),
        other => Err(ClientError::unexpected(other)),
    }
}
