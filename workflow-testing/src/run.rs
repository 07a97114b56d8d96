use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;

use serde::Serialize;
use serde::de::DeserializeOwned;
use workflow_sdk::{CancelOutcome, NamesSignal, Run, RunHistory, RunId, RunStatus, SignalOutcome, StepAttempt};

use super::TestError;
use super::env_thread::EnvThread;
use super::outcome_keys::{difference, outcome_keys};
use super::process::Followed;

/// A run in a [`TestEnv`](super::TestEnv). It outlives crashes of the env's worker.
pub struct TestRun<O> {
    thread: EnvThread,
    id: RunId,
    output: PhantomData<fn() -> O>,
}

impl<O> TestRun<O> {
    pub(super) fn new(thread: EnvThread, id: RunId) -> Self {
        Self { thread, id, output: PhantomData }
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns the run as the database has it once everything waits.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn run(&self) -> Result<Run, TestError> {
        let id = self.id;
        let run = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.run(id).await
        });
        Ok(run.await??)
    }

    /// Returns the status of the run once everything waits.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn status(&self) -> Result<RunStatus, TestError> {
        Ok(self.run().await?.status)
    }

    /// Returns every recorded attempt of every step.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn history(&self) -> Result<Vec<StepAttempt>, TestError> {
        let id = self.id;
        let history = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.history(id).await
        });
        Ok(history.await??)
    }

    /// Returns the run with its history. See [`Client::export`](workflow_sdk::Client::export).
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn export(&self) -> Result<RunHistory, TestError> {
        let id = self.id;
        let export = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.export(id).await
        });
        Ok(export.await??)
    }

    /// Returns the keys of the recorded outcomes (of steps, sleeps, signals and children), in the
    /// order in which the workflow got them. A failed attempt that is followed by another one has
    /// no outcome.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn ran(&self) -> Result<Vec<String>, TestError> {
        Ok(outcome_keys(&self.history().await?))
    }

    /// Returns what the run waits for, in one sentence.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn waits_for(&self) -> Result<String, TestError> {
        let id = self.id;
        let explanation = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.explain(id).await
        });
        Ok(explanation.await??.to_string())
    }

    /// Cancels the run: asks it to clean up and end.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn cancel(&self) -> Result<CancelOutcome, TestError> {
        let id = self.id;
        let canceled = self.thread.call(move |process| async move {
            let canceled = process.client.cancel(id).await;
            process.settle().await;
            canceled
        });
        Ok(canceled.await??)
    }

    /// Sends a signal to the run.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn signal<T>(&self, name: impl NamesSignal<T>, payload: &T) -> Result<SignalOutcome, TestError>
    where
        T: Serialize + DeserializeOwned,
    {
        let client = self.thread.call(|process| async move { process.client.clone() }).await?;
        let send = client.signal(self.id, name.signal_name(), payload);
        let sent = self.thread.call(move |process| async move {
            let sent = send.await;
            process.settle().await;
            sent
        });
        Ok(sent.await??)
    }

    /// Emits an event, in the name of the application, and returns the number of runs that it was
    /// delivered to. The event reaches every run of the environment that waits for it.
    ///
    /// # Errors
    /// [`TestError::Client`] if the client returns an error.
    pub async fn emit<T>(&self, name: impl NamesSignal<T>, key: &str, payload: &T) -> Result<u64, TestError>
    where
        T: Serialize + DeserializeOwned,
    {
        let client = self.thread.call(|process| async move { process.client.clone() }).await?;
        let emit = client.emit(name.signal_name(), key, payload);
        let emitted = self.thread.call(move |process| async move {
            process.settle().await;
            let emitted = emit.await;
            process.settle().await;
            emitted
        });
        Ok(emitted.await??)
    }

    /// Asserts that [`TestRun::ran`] returns these keys, in this order.
    ///
    /// # Panics
    /// If the keys differ. The message shows both lists side by side.
    #[track_caller]
    pub fn assert_ran<K: Into<String>>(
        &self,
        expected: impl IntoIterator<Item = K>,
    ) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        let expected: Vec<String> = expected.into_iter().map(Into::into).collect();
        self.compare(expected, at)
    }

    async fn compare(&self, expected: Vec<String>, at: &'static Location<'static>) {
        let found = self.ran().await;
        let report = match &found {
            Ok(found) => difference(&expected, found).map(|it| it.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let report = report.unwrap_or_default();
        assert!(report.is_empty(), "at {at}: the run did not do what was expected\n{report}");
    }
}

impl<O: DeserializeOwned + Send + 'static> TestRun<O> {
    /// Returns the output of the run, if the run ends without the passing of time.
    ///
    /// # Errors
    /// [`TestError::StillWaiting`] if the run waits, with what it waits for. [`TestError::Client`]
    /// if the run failed or was canceled.
    pub async fn result(&self) -> Result<O, TestError> {
        let id = self.id;
        if self.thread.call(move |process| async move { process.ends_now(id).await }).await? {
            return self.ended().await;
        }
        self.still_waiting().await
    }

    /// Lets as much time pass as the run needs to end, from timer to timer. Returns the output of
    /// the run.
    ///
    /// # Errors
    /// [`TestError::Client`] if the run failed or was canceled. [`TestError::StillWaiting`] if the
    /// run waits for something that does not come with time. [`TestError::Diverged`] if its history
    /// does not fit the code. [`TestError::TooLong`] if it does not come to an end.
    pub async fn finish(&self) -> Result<O, TestError> {
        let id = self.id;
        match self.thread.call(move |process| async move { process.follow(id).await }).await? {
            Followed::Ended => self.ended().await,
            // A body may wait for another thread, which gets real time from `result`.
            Followed::StandsStill => self.result().await,
            Followed::Diverged(divergence) => Err(TestError::Diverged { divergence }),
            Followed::TooLong => {
                let now = self.thread.surroundings.time.now().to_string();
                Err(TestError::TooLong { run: id, now, waits_for: self.waits_for().await? })
            }
        }
    }

    async fn ended(&self) -> Result<O, TestError> {
        let id = self.id;
        let ended =
            self.thread.call(move |process| async move { process.client.handle::<O>(id).await?.result().await });
        Ok(ended.await??)
    }

    async fn still_waiting(&self) -> Result<O, TestError> {
        Err(TestError::StillWaiting { run: self.id, waits_for: self.waits_for().await? })
    }
}

impl<O> fmt::Debug for TestRun<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestRun").field("id", &self.id).finish_non_exhaustive()
    }
}
