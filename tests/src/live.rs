//! A fresh database under the real clock, as an application and its workers have one.

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
    /// A new database with the tables of the engine.
    pub async fn new(database: Database) -> Self {
        let captured = Arc::new(Captured::start());
        let place = Place::new(database, &Clock::default());
        let client = connect(&place).await.expect("connect to a fresh database");
        Self { database, client, place, captured }
    }

    /// The URL of the data.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.place)
    }

    /// The schema of the data, where there is one.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.place.schema()
    }

    /// A connection that is to be made to this data.
    pub fn connect(&self) -> Connect {
        connect(&self.place)
    }

    /// A client with connections and an executor of its own, as another process would have one.
    pub async fn second_client(&self) -> Client {
        self.connect().await.expect("a second client")
    }

    /// A worker on the application's client.
    pub fn worker<S: Send + Sync + 'static>(&self, state: S) -> Worker<S> {
        Worker::new(self.client.clone(), state)
    }

    /// A connection of the test's own, past the contract.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.url(), self.place.schema()).await
    }

    /// Removes the data.
    ///
    /// # Panics
    /// If the log shows any of it.
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
