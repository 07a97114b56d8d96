use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::{EventName, NameSubject, NamesSignal, NewEmission, busy_event_delay, check_name};
use workflow_engine::runtime::{PayloadError, round_trip_for_caller};
use workflow_engine::store::{Outcome, Write};

use super::within::commit_within;
use super::{Client, ClientError};

/// How long an emission is retried while another transaction holds its event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A builder for an emission: set its options, then await it. Made by [`Client::emit`].
#[must_use = "no event is emitted until this is awaited"]
pub struct Emit {
    client: Client,
    emission: Result<NewEmission, PayloadError>,
}

impl Emit {
    /// Emits the event in a transaction of the application, on the client's database: the event is
    /// delivered if and only if that transaction commits. It reaches the runs that wait when this
    /// call returns, and no run begins to wait for the event from then on until the transaction
    /// ends. The runs are woken after the commit.
    ///
    /// Keep the transaction short: until it ends it holds the write lock of the file on SQLite, and
    /// on PostgreSQL the rows of the runs that it reaches.
    ///
    /// # Errors
    /// See [`Client::emit`]; also [`ClientError::OtherDatabase`], and [`ClientError::Isolation`]
    /// for a transaction above READ COMMITTED. After an error of the database, roll the transaction
    /// back.
    ///
    /// ```no_run
    /// # use workflow_sdk::{Client, ClientError};
    /// # type Done = Result<(), Box<dyn std::error::Error>>;
    /// # async fn pay(client: &Client, pool: &workflow_sdk::sqlx::SqlitePool) -> Done {
    /// let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    /// // ... the statements that mark the order as paid ...
    /// let runs = client.emit("order.paid", "order-42", &500_u64).within(&mut transaction).await?;
    /// transaction.commit().await?;
    /// # let _ = runs;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn within<T: super::ApplicationTransaction>(self, transaction: &mut T) -> Result<u64, ClientError> {
        let (client, emission) = self.checked()?;
        answer(commit_within(&client, transaction, &Write::Emit(emission)).await?)
    }

    fn checked(self) -> Result<(Client, NewEmission), ClientError> {
        let emission = self.emission?;
        check_name(NameSubject::Event, &emission.event.name)?;
        check_name(NameSubject::EventKey, &emission.event.key)?;
        Ok((self.client, emission))
    }
}

impl Client {
    /// Emits an event: delivers it to every run that waits for this name and key
    /// ([`Ctx::event`](crate::Ctx::event)) when it is committed, once to each wait. Returns the
    /// number of runs that it was delivered to, which may be 0: the event is not kept for later
    /// waits.
    ///
    /// A run whose wait is registered by a later commit does not receive the event. To miss
    /// nothing, the application writes what has happened before it emits the event or
    /// [with it](Emit::within), and the run waits first and looks second: see
    /// [`Ctx::event`](crate::Ctx::event).
    ///
    /// An emission costs a fixed number of statements, whatever the number of runs, and writes one
    /// row with the payload for each run.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let runs = client.emit("order.paid", "order-42", &500_u64).await?;
    /// assert_eq!(runs, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::Payload`], [`ClientError::Name`],
    /// [`ClientError::EventBusy`] or [`ClientError::Database`]. If the kind of a database error is
    /// transient, the event may or may not have been emitted. The client does not repeat an
    /// emission, because a repetition would reach runs that have begun to wait since.
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the event may or may not have been emitted.
    pub fn emit<T>(&self, name: impl NamesSignal<T>, key: impl Into<String>, payload: &T) -> Emit
    where
        T: Serialize + DeserializeOwned,
    {
        let event = EventName { name: name.signal_name().to_owned(), key: key.into() };
        let subject = format!("event {:?}", event.name);
        let emission = round_trip_for_caller(&subject, payload, self.payload_limit()).map(|(payload, _)| NewEmission {
            event,
            payload,
            by: None,
        });
        Emit { client: self.clone(), emission }
    }
}

impl IntoFuture for Emit {
    type Output = Result<u64, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, emission) = self.checked()?;
            answer(emit(&client, emission).await?)
        })
    }
}

/// Commits an emission. Tries again while another transaction holds its event: the executor must
/// not wait for a transaction of the application.
///
/// # Errors
/// See [`Client::emit`].
pub async fn emit(client: &Client, emission: NewEmission) -> Result<Outcome, ClientError> {
    let (mut refusals, mut waited) = (0, Duration::ZERO);
    loop {
        match client.commit(Write::Emit(emission.clone())).await? {
            Outcome::Busy if waited < PATIENCE => {}
            Outcome::Busy => {
                let EventName { name, key } = emission.event;
                return Err(ClientError::EventBusy { name, key, after: waited });
            }
            outcome => return Ok(outcome),
        }
        refusals += 1;
        let delay = busy_event_delay(refusals);
        tokio::time::sleep(delay).await;
        waited += delay;
    }
}

fn answer(outcome: Outcome) -> Result<u64, ClientError> {
    match outcome {
        Outcome::Emitted(emitted) => Ok(emitted.count),
        other => Err(ClientError::unexpected(other)),
    }
}

impl fmt::Debug for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.emission.as_ref().map(|emission| &emission.event);
        f.debug_struct("Emit").field("event", &event).finish_non_exhaustive()
    }
}
