use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde_json::Value;

use workflow_engine::model::{RunHistory, RunId, UnreadablePayload};
use workflow_engine::store::{DatabaseError, Store};

use super::{Client, ClientError};

/// A builder for the export of a run: await it. See [`Client::export`].
#[must_use = "nothing is read until it is awaited"]
pub struct Export {
    client: Client,
    id: RunId,
    redact: Option<Box<dyn FnOnce(RunHistory) -> RunHistory + Send>>,
}

impl Export {
    pub(super) fn new(client: Client, id: RunId) -> Self {
        Self { client, id, redact: None }
    }

    /// Replaces every payload by a placeholder: see [`RunHistory::redact`]. Default: the payloads
    /// are exported unchanged.
    pub fn redact(mut self) -> Self {
        self.redact = Some(Box::new(RunHistory::redact));
        self
    }

    /// Replaces each payload by what this function makes of it: see [`RunHistory::redact_with`].
    pub fn redact_with(mut self, change: impl FnMut(Option<&str>, Value) -> Value + Send + 'static) -> Self {
        self.redact = Some(Box::new(|history| history.redact_with(change)));
        self
    }
}

impl Client {
    /// Exports a run with its whole history, so that a test can replay it elsewhere. Returns a
    /// builder: await it.
    ///
    /// The export holds the input and every recorded value. Keep it where the data itself may be
    /// kept, or [redact](Export::redact) it.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::UnknownRun`] or [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
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
    /// let run = client.start(checkout, "order 42".to_string()).await?;
    /// let history = client.export(run.id()).await?;
    /// assert_eq!(history.run.input, "\"order 42\"");
    /// assert!(history.to_json().contains("\"format\": 1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, id: RunId) -> Export {
        Export::new(self.clone(), id)
    }
}

impl IntoFuture for Export {
    type Output = Result<RunHistory, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let history = run_history(self.client.store().as_ref(), self.id).await?;
            let history = history.ok_or(ClientError::UnknownRun { run_id: self.id })?;
            Ok(match self.redact {
                Some(redact) => redact(history),
                None => history,
            })
        })
    }
}

/// Reads a run and its history, which may grow meanwhile; `None` if there is no run with this id.
///
/// Reads the run first, so the history holds at least the steps that the run's status implies, and
/// reads the run again at the end. If the run continued as new in between, the steps do not belong
/// to the input.
///
/// # Errors
/// [`DatabaseError`] if the database cannot be reached.
pub async fn run_history(store: &dyn Store, id: RunId) -> Result<Option<RunHistory>, DatabaseError> {
    let Some(mut run) = store.run(id).await? else { return Ok(None) };
    loop {
        let error = run.error.as_ref().and_then(UnreadablePayload::in_place_of_error);
        let payloads = [Some(&run.input), run.output.as_ref()].into_iter().flatten();
        if let Some(unreadable) = payloads.filter_map(|text| UnreadablePayload::in_place_of(text)).next().or(error) {
            return Err(unreadable.into());
        }
        let steps = store.history(id).await?;
        let Some(again) = store.run(id).await? else { return Ok(None) };
        if (run.generation, run.attempt) == (again.generation, again.attempt) {
            return Ok(Some(RunHistory::new(run, steps)));
        }
        run = again;
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("id", &self.id).finish_non_exhaustive()
    }
}
