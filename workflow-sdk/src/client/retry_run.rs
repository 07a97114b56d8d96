use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use workflow_engine::model::{RunId, RunStatus, StartTime, StepKind, Timestamp, busy_event_delay, steps_to_retry};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, ReviveWrite, Write};

use super::{Client, ClientError, RunHandle};

/// A builder for another attempt of a failed run: set its options, then await it. Made by
/// [`Client::retry`] and [`RunHandle::retry`].
#[must_use = "nothing is tried again until this is awaited"]
pub struct RetryRun<O> {
    client: Client,
    run_id: RunId,
    deadline: Option<StartTime>,
    output: PhantomData<fn() -> O>,
}

impl<O> RetryRun<O> {
    pub(super) fn new(client: &Client, run_id: RunId) -> Self {
        Self { client: client.clone(), run_id, deadline: None, output: PhantomData }
    }

    /// Fails the run if it has not ended within this time after the commit. Default: the deadline
    /// of the run, which must not have passed.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(StartTime::After(after));
        self
    }

    /// Fails the run if it has not ended at this instant. See [`RetryRun::deadline`].
    pub fn deadline_at(mut self, instant: impl Into<Timestamp>) -> Self {
        self.deadline = Some(StartTime::At(instant.into()));
        self
    }

    async fn revive(self) -> Result<RunHandle<O>, ClientError> {
        // The check may be made before the write: a second caller that tries the same run at this
        // moment is refused by the write itself.
        const READS: u32 = 8;
        for attempt in 1..=READS {
            let write = self.write().await?;
            match self.client.commit(Write::Revive(write)).await? {
                Outcome::Applied | Outcome::Duplicate => return Ok(RunHandle::new(self.client, self.run_id)),
                Outcome::SingleTaken { id } => {
                    let key = self.client.run(self.run_id).await?.single.map(|single| single.key);
                    let (run_id, key) = (self.run_id, key.unwrap_or_default());
                    return Err(ClientError::SingleTakenSince { run_id, key, holder: id });
                }
                Outcome::Busy => tokio::time::sleep(busy_event_delay(attempt)).await,
                Outcome::Lost => {}
                other => return Err(ClientError::unexpected(other)),
            }
        }
        let changing = "another program changed the run each time; try again";
        Err(DatabaseError::new(DatabaseErrorKind::Busy, "try a failed run again", changing).into())
    }

    pub(crate) async fn write(&self) -> Result<ReviveWrite, ClientError> {
        let run_id = self.run_id;
        let run = self.client.run(run_id).await?;
        if run.status != RunStatus::Failed {
            return Err(ClientError::NotFailed { run_id, status: run.status });
        }
        let history = self.client.read(self.client.store().history(run_id)).await?;
        if history.iter().any(|row| row.kind == StepKind::Compensation) {
            return Err(ClientError::Compensated { run_id });
        }
        let deadline = match self.deadline {
            None => run.deadline_at,
            Some(StartTime::At(instant)) => Some(instant),
            Some(StartTime::Now | StartTime::After(_)) => None,
        };
        if let Some(deadline) = deadline
            && deadline <= self.client.now().await?
        {
            return Err(ClientError::DeadlinePassed { run_id, deadline });
        }
        let again = steps_to_retry(&history, run.error.as_ref());
        Ok(ReviveWrite { run_id, attempt: run.attempt, again, deadline: self.deadline })
    }
}

impl<O: 'static> IntoFuture for RetryRun<O> {
    type Output = Result<RunHandle<O>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.revive())
    }
}

impl<O> fmt::Debug for RetryRun<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryRun").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}
