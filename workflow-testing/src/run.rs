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

    /// Its id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The run as it stands in the database, when everything waits.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn run(&self) -> Result<Run, TestError> {
        let id = self.id;
        let run = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.run(id).await
        });
        Ok(run.await??)
    }

    /// Where it is in its life, when everything waits.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn status(&self) -> Result<RunStatus, TestError> {
        Ok(self.run().await?.status)
    }

    /// Every recorded attempt of every step.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn history(&self) -> Result<Vec<StepAttempt>, TestError> {
        let id = self.id;
        let history = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.history(id).await
        });
        Ok(history.await??)
    }

    /// The run with its history, as [`Client::export`](workflow_sdk::Client::export) gives it.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn export(&self) -> Result<RunHistory, TestError> {
        let id = self.id;
        let export = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.export(id).await
        });
        Ok(export.await??)
    }

    /// The keys of the calls whose outcomes are recorded, in the order in which the workflow got them: of steps, sleeps,
    /// signals, children. Failed attempts that another one follows are not among them.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn ran(&self) -> Result<Vec<String>, TestError> {
        Ok(outcome_keys(&self.history().await?))
    }

    /// What the run waits for, in one sentence.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn waits_for(&self) -> Result<String, TestError> {
        let id = self.id;
        let explanation = self.thread.call(move |process| async move {
            process.settle().await;
            process.client.explain(id).await
        });
        Ok(explanation.await??.to_string())
    }

    /// Asks the run to end.
    ///
    /// # Errors
    /// [`TestError::Client`].
    pub async fn cancel(&self) -> Result<CancelOutcome, TestError> {
        let id = self.id;
        let canceled = self.thread.call(move |process| async move {
            let canceled = process.client.cancel(id).await;
            process.settle().await;
            canceled
        });
        Ok(canceled.await??)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// [`TestError::Client`].
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

    /// Asserts that the run has done this and nothing else, in this order: see [`TestRun::ran`].
    ///
    /// # Panics
    /// If it has not, with both lists side by side.
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
        assert!(report.is_empty(), "at {at}: the run did otherwise than expected\n{report}");
    }
}

impl<O: DeserializeOwned + Send + 'static> TestRun<O> {
    /// What the run ended with, if it ends without the passing of time.
    ///
    /// # Errors
    /// [`TestError::StillWaiting`], with what it waits for; [`TestError::Client`] if it failed or was canceled.
    pub async fn result(&self) -> Result<O, TestError> {
        let id = self.id;
        if self.thread.call(move |process| async move { process.ends_now(id).await }).await? {
            return self.ended().await;
        }
        self.still_waiting().await
    }

    /// Lets as much time pass as the run needs to end, from timer to timer, and gives what it ended with.
    ///
    /// # Errors
    /// As [`TestRun::result`]: [`TestError::StillWaiting`] where it waits for something that time does not bring; and
    /// [`TestError::Diverged`], [`TestError::TooLong`].
    pub async fn finish(&self) -> Result<O, TestError> {
        let id = self.id;
        match self.thread.call(move |process| async move { process.follow(id).await }).await? {
            Followed::Ended => self.ended().await,
            // A body may wait for another thread.
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
