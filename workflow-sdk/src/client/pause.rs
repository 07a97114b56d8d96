use workflow_engine::model::RunId;
use workflow_engine::store::{Outcome, PauseOutcome, ResumeOutcome, Write};

use super::{Client, ClientError};

impl Client {
    /// Keeps a run from going on until it is [resumed](Client::resume). A running run lets its
    /// running steps end, begins no others, and is given back by its worker: at once if the worker
    /// is in this process, else within a heartbeat. If nothing was left to do, the run ends. Sleeps
    /// and deadlines continue during a pause. Pausing a paused run changes nothing. A cancel ends
    /// the pause, and so does a passed deadline, within 10 s: the run is to be undone.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be paused. Pausing it again is safe.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::{PauseOutcome, ResumeOutcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).await?;
    /// assert_eq!(client.pause(run.id()).await?, PauseOutcome::Paused);
    /// assert_eq!(client.resume(run.id()).await?, ResumeOutcome::Resumed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pause(&self, id: RunId) -> Result<PauseOutcome, ClientError> {
        match self.commit(Write::Pause(id)).await? {
            Outcome::Paused(PauseOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Paused(outcome) => Ok(outcome),
            other => Err(ClientError::unexpected(other)),
        }
    }

    /// Lets a paused run go on: at once if it became due during the pause, else when it is due.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// See [`Client::pause`].
    pub async fn resume(&self, id: RunId) -> Result<ResumeOutcome, ClientError> {
        match self.commit(Write::Resume(id)).await? {
            Outcome::Resumed(ResumeOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Resumed(outcome) => {
                // A step of the run may be the next in a line that has a free seat.
                self.look_for_seats(None).await;
                Ok(outcome)
            }
            other => Err(ClientError::unexpected(other)),
        }
    }
}
