use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::NamesSignal;
use workflow_engine::model::{NameSubject, NewSignal, RunId, SignalKey, SignalOutcome, check_name};
use workflow_engine::runtime::{PayloadError, round_trip_for_caller};
use workflow_engine::store::{Outcome, Write};

use super::within::commit_within;
use super::{Client, ClientError};

/// A builder for a signal: set its options, then await it.
#[must_use = "no signal is sent until this is awaited"]
pub struct SendSignal {
    client: Client,
    signal: Result<NewSignal, PayloadError>,
}

impl SendSignal {
    pub(super) fn new<T>(client: &Client, run_id: RunId, name: &impl NamesSignal<T>, payload: &T) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        let name = name.signal_name();
        let subject = format!("signal {name:?} to run {run_id}");
        let signal = round_trip_for_caller(&subject, payload, client.payload_limit()).map(|(payload, _)| NewSignal {
            run_id,
            name: name.to_owned(),
            payload,
            key: SignalKey::generate(),
            limit: Some(client.signal_limit()),
        });
        Self { client: client.clone(), signal }
    }

    /// Sets the idempotency key, unique within the run: a second signal with the same key changes
    /// nothing and returns [`SignalOutcome::Repeated`] with the first one. Default: none. Range: 1
    /// to 255 bytes, no control characters.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        if let Ok(signal) = &mut self.signal {
            signal.key = SignalKey::Given(key.into());
        }
        self
    }

    /// Sends the signal in a transaction of the application, on the client's database: the signal
    /// exists if and only if that transaction commits. The run is woken after the commit.
    ///
    /// Keep the transaction short: until it ends it holds the write lock of the file on SQLite, and
    /// the row of the run on PostgreSQL.
    ///
    /// # Errors
    /// See [`Client::signal`]; also [`ClientError::OtherDatabase`]. After an error of the database,
    /// roll the transaction back.
    pub async fn within<T: super::ApplicationTransaction>(
        self,
        transaction: &mut T,
    ) -> Result<SignalOutcome, ClientError> {
        let (client, signal) = self.checked()?;
        let (run_id, limit) = (signal.run_id, client.signal_limit());
        answer(run_id, limit, commit_within(&client, transaction, &Write::Signal(signal)).await?)
    }

    pub(crate) fn checked(self) -> Result<(Client, NewSignal), ClientError> {
        let signal = self.signal?;
        check_name(NameSubject::Signal, &signal.name)?;
        if let SignalKey::Given(key) = &signal.key {
            check_name(NameSubject::Key, key)?;
        }
        Ok((self.client, signal))
    }
}

impl Client {
    /// Sends a signal to a run: see [`Ctx::signal`](crate::Ctx::signal). Returns a builder: set its
    /// options, then await it.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// const ADDRESS: Signal<String> = Signal::new("address");
    ///
    /// #[workflow]
    /// async fn deliver(ctx: &Ctx) -> Result<String> {
    ///     let address = ctx.signal(ADDRESS).await?;
    ///     Ok(address.unwrap_or_default())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(deliver, ()).await?;
    /// let address = "12 Main Street".to_string();
    /// let sent = client.signal(run.id(), ADDRESS, &address).key("address-1").await?;
    /// assert_eq!(sent, SignalOutcome::Accepted);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::UnknownRun`], [`ClientError::Payload`],
    /// [`ClientError::Name`], [`ClientError::InboxFull`] or [`ClientError::Database`]. A signal to
    /// a run that has ended is not an error: see [`SignalOutcome`](crate::SignalOutcome).
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the signal may or may not have been sent. Send it again
    /// with the same [key](SendSignal::key), so that it is sent once.
    pub fn signal<T>(&self, run_id: RunId, name: impl NamesSignal<T>, payload: &T) -> SendSignal
    where
        T: Serialize + DeserializeOwned,
    {
        SendSignal::new(self, run_id, &name, payload)
    }
}

impl IntoFuture for SendSignal {
    type Output = Result<SignalOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, signal) = self.checked()?;
            let (run_id, limit) = (signal.run_id, client.signal_limit());
            answer(run_id, limit, client.commit(Write::Signal(signal)).await?)
        })
    }
}

fn answer(run_id: RunId, limit: u32, outcome: Outcome) -> Result<SignalOutcome, ClientError> {
    match outcome {
        Outcome::Signaled(SignalOutcome::Full) => Err(ClientError::InboxFull { run_id, limit }),
        Outcome::Signaled(SignalOutcome::Unknown) => Err(ClientError::UnknownRun { run_id }),
        Outcome::Signaled(outcome) => Ok(outcome),
        other => Err(ClientError::unexpected(other)),
    }
}

impl fmt::Debug for SendSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = self.signal.as_ref().map(|signal| (&signal.run_id, &signal.name));
        f.debug_struct("SendSignal").field("signal", &signal).finish_non_exhaustive()
    }
}
