use std::future::{Future, IntoFuture};
use std::pin::Pin;

use workflow_engine::model::RunId;
use workflow_engine::store::{CancelOutcome, Outcome, Write};

use super::within::commit_within;
use super::{Client, ClientError};

/// A cancel of a run: await it.
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

    /// Cancels the run in a transaction of the application's own, on the client's database: if and only if that transaction
    /// commits. A worker that holds the run learns of it at its next heartbeat after the commit.
    ///
    /// # Errors
    /// As for [`Client::cancel`], and [`ClientError::OtherDatabase`]. After an error of the database roll the transaction
    /// back.
    pub async fn within<T: super::ApplicationTransaction>(
        self,
        transaction: &mut T,
    ) -> Result<CancelOutcome, ClientError> {
        answer(self.run, commit_within(&self.client, transaction, &Write::Cancel(self.run)).await?)
    }
}

impl Client {
    /// Cancels a run. Returns a builder: await it, or await it [within](Cancel::within) a transaction.
    ///
    /// One that no worker has claimed yet is canceled when this returns. Another is asked to end: its pending
    /// call fails with kind [`Canceled`](crate::ErrorKind::Canceled), once, so that the function can clean up and its
    /// compensations run, within the worker's grace (60 s unless it says otherwise). A worker of this process hears of it at
    /// once, one of another within a heartbeat.
    ///
    /// A run of a workflow that no worker knows stays as it is until one does, or until it is terminated.
    ///
    /// A second cancel, called after the first one has returned, is a [`Client::terminate`]. Two at the same moment are one.
    ///
    /// # Errors
    /// Awaiting it gives [`ClientError::UnknownRun`], or one of the database.
    ///
    /// # Cancel safety
    /// Dropping the awaited future leaves it open whether the run was canceled; it can be canceled again.
    pub fn cancel(&self, id: RunId) -> Cancel {
        Cancel::new(self.clone(), id)
    }

    /// Ends a run as canceled at once: nothing of it goes on, no clean-up and no compensation. Its worker drops it, at once if
    /// it is of this process, else within a heartbeat; what it would still write is refused.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the run was ended.
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
}

impl IntoFuture for Cancel {
    type Output = Result<CancelOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // Asked here and not by the write: that may be applied twice, if the reply to its commit is lost, and must not
            // then take itself for the second.
            match self.client.run(self.run).await?.cancel_requested_at {
                None => commit(&self.client, self.run, Write::Cancel(self.run)).await,
                Some(_) => self.client.terminate(self.run).await,
            }
        })
    }
}

/// Asks a run to end, or ends it.
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
