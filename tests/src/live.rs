//! A fresh database under the real clock, as an application and its workers use it.

use std::sync::Arc;

use workflow_engine::model::Clock;
use workflow_sdk::{Client, Connect};
use workflow_worker::Worker;

use crate::fixture::{DataLocation, Database, sweep, url};
use crate::log_capture::LogCapture;
use crate::log_secrets::assert_no_stored_secret;
use crate::raw_connection::RawConnection;
use crate::until::LookAgain;

/// A fresh database and a client on it.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which database.
    pub database: Database,
    /// The application's client, whose executor the workers of [`Live::worker`] share.
    pub client: Client,
    location: DataLocation,
    captured: Arc<LogCapture>,
}

impl Live {
    /// Creates a new database with the tables of the engine.
    pub async fn new(database: Database) -> Self {
        let captured = Arc::new(LogCapture::start());
        let location = DataLocation::new(database, &Clock::default());
        let client = connect(&location).await.expect("connect to a fresh database");
        Self { database, client, location, captured }
    }

    /// Returns the URL of the data.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.location)
    }

    /// Returns the URL of the data for stores whose tables the search path finds.
    #[must_use]
    pub fn url_of_tables(&self) -> String {
        let url = self.url();
        match self.schema() {
            None => url,
            Some(schema) => {
                let separator = if url.contains('?') { '&' } else { '?' };
                format!("{url}{separator}options[search_path]={schema}")
            }
        }
    }

    /// Returns the schema of the data, if it has one.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.location.schema()
    }

    /// Returns the builder of a connection to this data.
    pub fn connect(&self) -> Connect {
        connect(&self.location)
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
        RawConnection::open(&self.url(), self.location.schema()).await
    }

    /// Removes the data.
    ///
    /// # Panics
    /// Panics if the log shows any of the data.
    pub async fn sweep(self) {
        self.client.store().close().await;
        assert_no_stored_secret(&self.location, &self.captured).await;
        sweep(&self.location).await;
    }
}

fn connect(location: &DataLocation) -> Connect {
    let connect = match location {
        DataLocation::Memory(database) => Client::in_memory(database),
        DataLocation::File(_) => Client::connect(url(location)),
        DataLocation::Schema(schema) => Client::connect(url(location)).schema(schema),
    };
    connect.observer(LookAgain)
}
