use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{Clock, DEFAULT_SIGNAL_LIMIT, PayloadCodec};
use workflow_engine::observe::{Observer, Observers};
use workflow_engine::runtime::DEFAULT_PAYLOAD_LIMIT;
use workflow_engine::store::{Coding, ConnectError, Store, StoreOptions, check_timeout, redact};

use super::timeout::DEFAULT_CALL_TIMEOUT;
use super::{ApplicationPool, Client, open};

/// A builder for a connection: set its options, then await it.
#[must_use = "nothing is connected until this is awaited"]
#[derive(Clone)]
pub struct Connect {
    to: Database,
    options: StoreOptions,
    payload_limit: usize,
    signal_limit: u32,
    call_timeout: Option<Duration>,
    coding: Coding,
    observers: Observers,
}

/// The store that the client will use.
#[derive(Clone)]
pub(super) enum Database {
    /// The database at this URL.
    Url(String),
    /// The database of a pool of the application.
    Pool(Arc<dyn ApplicationPool>),
    /// A store that is open already.
    Open(Arc<dyn Store>),
}

impl Connect {
    pub(super) fn new(to: Database) -> Self {
        Self {
            to,
            options: StoreOptions::default(),
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            signal_limit: DEFAULT_SIGNAL_LIMIT,
            call_timeout: None,
            coding: Coding::default(),
            observers: Observers::default(),
        }
    }

    /// Sets the number of connections for reads and, on PostgreSQL, for the transactions of steps.
    /// The client opens one more for its writer and one for notifications; a worker opens one for
    /// its lease and, on PostgreSQL, another one for its second liveness lock. Not used by
    /// [`Client::from_pool`]: that pool has a size already. Default: 8. Range: 1 to 1000.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.options.pool_size = connections;
        self
    }

    /// Sets the PostgreSQL schema that holds the tables; it is created if missing. SQLite ignores
    /// it. Default: `workflow`. Range: 1 to 31 of `a-z`, `0-9`, `_`, not beginning with a digit.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.options.schema = name.into();
        self
    }

    /// Sets the size limit of an input, output or step value, in bytes of JSON text. Default:
    /// [`DEFAULT_PAYLOAD_LIMIT`], 2 MiB. Range: up to 64 MiB; a larger value is lowered to that,
    /// because one batch may hold many payloads.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        const MAX: usize = 64 * 1024 * 1024;
        self.payload_limit = bytes.min(MAX);
        self
    }

    /// Sets how many signals may wait in the inbox of a run. A signal to a full inbox is refused
    /// with [`ClientError::InboxFull`](crate::ClientError::InboxFull); a step that sends one fails
    /// and is retried by its policy. Decisions about approvals do not count. Default: 10,000.
    /// Range: any; with 0, every signal is refused.
    pub fn signal_limit(mut self, signals: u32) -> Self {
        self.signal_limit = signals;
        self
    }

    /// Sets how long the database may take to answer while the client connects. The time of a
    /// migration does not count; it has 10 minutes on PostgreSQL and 30 seconds on SQLite. A server
    /// that refuses the connection is reported at once. Default: 30 seconds. Range: 1 ms to 1 hour.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:")
    ///     .timeout(Duration::from_secs(5))
    ///     .call_timeout(Duration::from_secs(2))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// Sets how long a call of this client waits for the database, for example while it is away.
    /// After that time the call fails with
    /// [`ClientError::TimedOut`](crate::ClientError::TimedOut), which says whether its effect is
    /// unknown: a write that was queued is still committed if the database comes back soon. A call
    /// that reads before it writes, such as [`Client::cancel`], has this time for each.
    ///
    /// Waits for a run ([`RunHandle::result`](crate::RunHandle::result), streams) have no limit;
    /// nor have exports and calls `within` a transaction of the application, and workers have their
    /// own patience. Default: 30 seconds; none for [`Client::in_memory`]. Range: 1 ms to 1 hour.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// Sets a codec that encodes every payload before it is stored and decodes it when it is read,
    /// for this client and its workers. Encryption is one (feature `encryption`,
    /// `docs/guide/security.md`). Every program that works on the same runs needs a codec that
    /// decodes what the others write. The payload limit applies to the plain text. Default: none;
    /// payloads are stored as JSON text.
    ///
    /// Implement [`PayloadCodec`](crate::PayloadCodec) for a codec of your own.
    pub fn codec(mut self, codec: impl PayloadCodec) -> Self {
        self.coding = Coding::new(Arc::new(codec));
        self
    }

    /// Adds an observer, which receives the events of this client and of the workers that use it.
    /// It is called on the threads of the executor and the workers, so it must return quickly and
    /// must not block. `docs/guide/logging.md` lists the events. Default: the log alone, which
    /// stays an observer.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::{Event, Observer};
    ///
    /// struct Failures;
    ///
    /// impl Observer for Failures {
    ///     fn event(&self, event: &Event<'_>) {
    ///         if let Event::RunEnded { run, status: RunStatus::Failed, .. } = event {
    ///             println!("a run of {} failed", run.workflow);
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").observer(Failures).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers = self.observers.with(Arc::new(observer));
        self
    }

    /// Sets whether the connect makes missing tables and brings the schema up to date. With
    /// `false`, a database that lacks either is refused with [`ConnectError::NotMigrated`], a
    /// missing SQLite file with [`ConnectError::NoFile`], and nothing is changed: for programs that
    /// only look, and for deployments that migrate in a step of their own. Default: `true`.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::ConnectError;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let refused = Client::connect("sqlite:///no/such/file.db").migrate(false).await;
    /// assert!(matches!(refused, Err(ConnectError::NoFile { .. })));
    /// # }
    /// ```
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.options.migrate = migrate;
        self
    }

    /// Sets whether the client may be connected to a standby of PostgreSQL: a hot standby, or read
    /// replica. There it reads, and refuses every change with
    /// [`ClientError::Standby`](crate::ClientError::Standby). The standby shows the past:
    /// [`Operate::system`](crate::operate::Operate::system) says how old it is. The client stays
    /// as it is after a promotion of the server, so connect again then. No worker starts on it.
    /// Default: `false`, which refuses a standby with [`ConnectError::Standby`]. SQLite ignores
    /// it.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").allow_standby(true).await?;
    /// assert_eq!(client.operate().system().await?.database.postgres, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_standby(mut self, allow: bool) -> Self {
        self.options.allow_standby = allow;
        self
    }

    /// Sets a clock that tests move.
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
            if let Some(timeout) = self.call_timeout {
                check_timeout("call_timeout", timeout)?;
            }
            let is_in_memory = matches!(self.to, Database::Open(_));
            let call_timeout = self.call_timeout.or((!is_in_memory).then_some(DEFAULT_CALL_TIMEOUT));
            let store = match self.to {
                Database::Url(url) => open(&url, self.options).await?,
                Database::Pool(pool) => {
                    self.options.check()?;
                    pool.open(self.options).await?
                }
                Database::Open(store) => store,
            };
            let limits = (self.payload_limit, self.signal_limit);
            Ok(Client::observed(store, limits, call_timeout, self.coding, self.observers))
        })
    }
}

impl std::fmt::Debug for Connect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to = match &self.to {
            Database::Url(url) => redact(url),
            Database::Pool(pool) => format!("a pool of {}", pool.database()),
            Database::Open(store) => format!("{store:?}"),
        };
        f.debug_struct("Connect").field("to", &to).field("options", &self.options).finish()
    }
}
