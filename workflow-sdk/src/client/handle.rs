use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::{ErrorKind, Run, RunId, RunStatus, StepAttempt, StoredError, unquoted};
use workflow_engine::store::{CancelOutcome, DeletedRun, PauseOutcome, ResumeOutcome};

use super::{Client, ClientError, Explanation, Fork, RetryRun, SendSignal};
use workflow_engine::model::NamesSignal;

/// A handle of a run. Cheap to clone; dropping it has no effect on the run.
pub struct RunHandle<O> {
    client: Client,
    id: RunId,
    existed: bool,
    output: PhantomData<fn() -> O>,
}

impl<O> RunHandle<O> {
    pub(super) fn new(client: Client, id: RunId) -> Self {
        Self { client, id, existed: false, output: PhantomData }
    }

    /// Returns a handle of a run that existed before the start that returns the handle.
    pub(super) fn of_existing(client: Client, id: RunId) -> Self {
        Self { existed: true, ..Self::new(client, id) }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns `true` if the handle comes from a start that found the run by its
    /// [idempotency key](crate::Start::key), [single key](crate::Start::single),
    /// [debounce](crate::Start::debounce) key or [period](crate::Start::once_per). `false` for a
    /// handle from elsewhere, and for a start that is repeated because the reply to its commit was
    /// lost.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Reads the run.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`] if the run was started in a transaction that has not committed;
    /// [`ClientError::Database`].
    pub async fn run(&self) -> Result<Run, ClientError> {
        self.client.run(self.id).await
    }

    /// Reads the status of the run.
    ///
    /// # Errors
    /// See [`RunHandle::run`].
    pub async fn status(&self) -> Result<RunStatus, ClientError> {
        Ok(self.run().await?.status)
    }

    /// Reads every attempt of every step: see [`Client::history`].
    ///
    /// # Errors
    /// See [`RunHandle::run`].
    pub async fn history(&self) -> Result<Vec<StepAttempt>, ClientError> {
        self.client.history(self.id).await
    }

    /// Sends a signal to the run: see [`Client::signal`].
    ///
    /// # Errors
    /// See [`Client::signal`].
    pub fn signal<T>(&self, name: impl NamesSignal<T>, payload: &T) -> SendSignal
    where
        T: Serialize + DeserializeOwned,
    {
        self.client.signal(self.id, name, payload)
    }

    /// Cancels the run: see [`Client::cancel`].
    ///
    /// # Errors
    /// See [`RunHandle::run`].
    pub async fn cancel(&self) -> Result<CancelOutcome, ClientError> {
        self.client.cancel(self.id).await
    }

    /// Ends the run at once: see [`Client::terminate`].
    ///
    /// # Errors
    /// See [`RunHandle::run`].
    pub async fn terminate(&self) -> Result<CancelOutcome, ClientError> {
        self.client.terminate(self.id).await
    }

    /// Deletes the run, which must have ended: see [`Client::delete`].
    ///
    /// # Errors
    /// See [`Client::delete`].
    pub async fn delete(&self) -> Result<DeletedRun, ClientError> {
        self.client.delete(self.id).await
    }
}

impl<O> RunHandle<O> {
    /// Returns a handle of this run with another type for its output.
    #[must_use]
    pub fn typed<T>(self) -> RunHandle<T> {
        RunHandle { existed: self.existed, ..RunHandle::new(self.client, self.id) }
    }

    /// Starts a new run that keeps a part of this run's history: see [`Client::fork`].
    ///
    /// # Errors
    /// See [`Client::fork`].
    pub fn fork(&self) -> Fork<O> {
        Fork::new(&self.client, self.id)
    }

    /// Tries the run again from where it failed: see [`Client::retry`].
    ///
    /// # Errors
    /// See [`Client::retry`].
    pub fn retry(&self) -> RetryRun<O> {
        RetryRun::new(&self.client, self.id)
    }

    /// Keeps the run from going on: see [`Client::pause`].
    ///
    /// # Errors
    /// See [`Client::pause`].
    pub async fn pause(&self) -> Result<PauseOutcome, ClientError> {
        self.client.pause(self.id).await
    }

    /// Lets the run go on after a pause: see [`Client::resume`].
    ///
    /// # Errors
    /// See [`Client::resume`].
    pub async fn resume(&self) -> Result<ResumeOutcome, ClientError> {
        self.client.resume(self.id).await
    }

    /// Says what the run waits for: see [`Client::explain`].
    ///
    /// # Errors
    /// See [`Client::explain`].
    pub async fn explain(&self) -> Result<Explanation, ClientError> {
        self.client.explain(self.id).await
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits until the run has ended and returns its output. The handle learns of the end by a
    /// notification, or by polling if the notification is lost. All waits of a process share one
    /// query.
    ///
    /// # Errors
    /// [`ClientError::RunFailed`], [`ClientError::RunCanceled`], [`ClientError::Decode`],
    /// [`ClientError::Unreadable`], [`ClientError::Database`]. [`ClientError::UnknownRun`], a few
    /// seconds later, if the run was deleted, or if the run was started in a transaction
    /// that has not committed by then.
    ///
    /// # Cancel safety
    /// Safe: the future can be dropped and `result` called again.
    pub async fn result(&self) -> Result<O, ClientError> {
        let ended = self.client.results().wait(self.id).await?;
        if let Some(unreadable) = ended.unreadable() {
            return Err(unreadable.into());
        }
        match ended.status {
            RunStatus::Succeeded => {
                let output = ended.output.as_deref().unwrap_or("null");
                serde_json::from_str(output).map_err(|source| ClientError::Decode {
                    run_id: self.id,
                    type_name: std::any::type_name::<O>(),
                    source: unquoted(source),
                })
            }
            RunStatus::Canceled => Err(ClientError::RunCanceled { run_id: self.id }),
            _ => {
                let missing =
                    || StoredError::new(ErrorKind::Application, "the run ended without an error that is kept");
                Err(ClientError::RunFailed { run_id: self.id, error: ended.error.unwrap_or_else(missing) })
            }
        }
    }
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> Self {
        Self { existed: self.existed, ..Self::new(self.client.clone(), self.id) }
    }
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
