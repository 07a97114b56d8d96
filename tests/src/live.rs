//! A fresh database under the real clock, as an application and its workers use it.

use std::sync::Arc;

use workflow_engine::model::Clock;
use workflow_sdk::{Client, Connect};
use workflow_worker::Worker;

use crate::captured::Captured;
use crate::disclosed::nothing_is_shown;
use crate::fixture::{Database, Place, sweep, url};
use crate::raw::RawConnection;

/// A fresh database and a client on it.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which database.
    pub database: Database,
    /// The application's client, whose executor the workers of [`Live::worker`] share.
    pub client: Client,
    place: Place,
    captured: Arc<Captured>,
}

impl Live {
    /// Creates a new database with the tables of the engine.
    pub async fn new(database: Database) -> Self {
        let captured = Arc::new(Captured::start());
        let place = Place::new(database, &Clock::default());
        let client = connect(&place).await.expect("connect to a fresh database");
        Self { database, client, place, captured }
    }

    /// Returns the URL of the data.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.place)
    }

    /// Returns the schema of the data, if it has one.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.place.schema()
    }

    /// Returns the builder of a connection to this data.
    pub fn connect(&self) -> Connect {
        connect(&self.place)
    }

    /// Opens a client with connections and an executor of its own, as another process would have
    /// one.
    pub async fn second_client(&self) -> Client {
        self.connect().await.expect("a second client")
    }

    /// Returns a worker on the application's client.
    pub fn worker<S: Send + Sync + 'static>(&self, state: S) -> Worker<S> {
        Worker::new(self.client.clone(), state)
    }

    /// Opens a connection of the test's own, which bypasses the contract.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.url(), self.place.schema()).await
    }

    /// Removes the data.
    ///
    /// # Panics
    /// Panics if the log shows any of the data.
    pub async fn sweep(self) {
        self.client.store().close().await;
        nothing_is_shown(&self.place, &self.captured).await;
        sweep(&self.place).await;
    }
}

fn connect(place: &Place) -> Connect {
    match place {
        Place::Memory(database) => Client::in_memory(database),
        Place::File(_) => Client::connect(url(place)),
        Place::Schema(schema) => Client::connect(url(place)).schema(schema),
    }
}
