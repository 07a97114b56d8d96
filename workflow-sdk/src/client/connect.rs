use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use workflow_engine::model::{Clock, PayloadCodec};
use workflow_engine::runtime::DEFAULT_PAYLOAD_LIMIT;
use workflow_engine::store::{Coding, ConnectError, Store, StoreOptions, redact};

use super::{Client, open};

/// A connection that is to be made: set its options, then await it.
#[must_use = "nothing is connected until this is awaited"]
#[derive(Clone)]
pub struct Connect {
    to: Database,
    options: StoreOptions,
    payload_limit: usize,
    coding: Coding,
}

/// What a connection leads to.
#[derive(Clone)]
pub(super) enum Database {
    /// The database of this URL.
    Url(String),
    /// This store, which is open.
    Open(Arc<dyn Store>),
}

impl Connect {
    pub(super) fn new(to: Database) -> Self {
        Self { to, options: StoreOptions::default(), payload_limit: DEFAULT_PAYLOAD_LIMIT, coding: Coding::default() }
    }

    /// Connections for reads and, on PostgreSQL, for the transactions of steps. One more writes; a worker opens another for its
    /// lease, and one for hints. Default: 8. Range: 1 to 1000.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.options.pool_size = connections;
        self
    }

    /// PostgreSQL schema that holds the tables; created if missing. SQLite ignores it. Default: `workflow`. Range: 1 to 31
    /// of `a-z`, `0-9`, `_`, not beginning with a digit.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.options.schema = name.into();
        self
    }

    /// Largest input, output or step value, in bytes of JSON text. Default: [`DEFAULT_PAYLOAD_LIMIT`], 2 MiB. Range: up to
    /// 64 MiB; more is taken as that, for one batch may hold many.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        const MAX: usize = 64 * 1024 * 1024;
        self.payload_limit = bytes.min(MAX);
        self
    }

    /// What encodes every payload before it is stored and decodes what is read, for this client and its workers: encryption, for
    /// one (feature `encryption`, `docs/guide/security.md`). Every program that works on the same runs needs a codec that decodes what
    /// the others write. The payload limit is that of the plain text. Default: none; payloads are stored as JSON text.
    ///
    /// See [`PayloadCodec`](crate::PayloadCodec) for one of your own.
    pub fn codec(mut self, codec: impl PayloadCodec) -> Self {
        self.coding = Coding::new(Arc::new(codec));
        self
    }

    /// A clock that tests move.
    #[doc(hidden)]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }
}

impl IntoFuture for Connect {
    type Output = Result<Client, ConnectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let store = match self.to {
                Database::Url(url) => open(&url, self.options).await?,
                Database::Open(store) => store,
            };
            Ok(Client::coded(store, self.payload_limit, self.coding))
        })
    }
}

impl std::fmt::Debug for Connect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to = match &self.to {
            Database::Url(url) => redact(url),
            Database::Open(store) => format!("{store:?}"),
        };
        f.debug_struct("Connect").field("to", &to).field("options", &self.options).finish()
    }
}
