use std::future::{Future, IntoFuture};
use std::pin::Pin;

use crate::backend::{CancelOutcome, Outcome, Write};
use crate::model::RunId;

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
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub async fn within<T: super::ApplicationTransaction>(
        self,
        transaction: &mut T,
    ) -> Result<CancelOutcome, ClientError> {
        let outcome = transaction.cancel(self.client.backend().as_ref(), self.run).await?;
        known(self.run, outcome)
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
    match client.commit(write).await? {
        Outcome::Canceled(outcome) => known(run, outcome),
        other => Err(ClientError::unexpected(other)),
    }
}

fn known(run_id: RunId, outcome: CancelOutcome) -> Result<CancelOutcome, ClientError> {
    match outcome {
        CancelOutcome::Unknown => Err(ClientError::UnknownRun { run_id }),
        outcome => Ok(outcome),
    }
}
