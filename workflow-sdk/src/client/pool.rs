use std::sync::Arc;

use futures::future::BoxFuture;

use workflow_engine::store::{ConnectError, Store, StoreOptions};

use super::Client;
use super::connect::{Connect, Database};

/// A connection pool of the application, over which [`Client::from_pool`](crate::Client::from_pool)
/// connects: `sqlx::SqlitePool` or `sqlx::PgPool`.
pub trait ApplicationPool: sealed::Sealed + Send + Sync + 'static {
    /// Opens the store over the pool and brings its schema up to date.
    #[doc(hidden)]
    fn open(&self, options: StoreOptions) -> Opening;

    /// Returns the kind of the database, as errors show it.
    #[doc(hidden)]
    fn database(&self) -> &'static str;
}

impl Client {
    /// Connects to the database of the application's own connection pool: a `sqlx` pool of SQLite
    /// or PostgreSQL (`workflow_sdk::sqlx` is the driver in the right version). Brings the schema
    /// up to date.
    ///
    /// Reads, and on PostgreSQL the transactions of steps, take connections of the pool, with the
    /// settings that the application has given them. Statements name their schema, so the pool may
    /// set a search path of its own. Everything that needs a session of its own gets one with the
    /// pool's connect options: one connection for writes, one for notifications, and one for the
    /// lease of each worker. These do not run the pool's `after_connect`.
    ///
    /// The pool stays the application's. The client never closes it. Once the application has
    /// closed it, each call fails with [`Unreachable`](crate::DatabaseErrorKind::Unreachable), so
    /// end the workers first. Give the pool more connections than the application holds while it
    /// calls the client: a read waits for a free one, as long as the pool allows
    /// (`acquire_timeout`).
    ///
    /// Returns a builder: set its options, then await it. `docs/guide/connecting.md` says which
    /// settings suit.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ConnectError`](crate::ConnectError), with
    /// [`UnsuitablePool`](crate::ConnectError::UnsuitablePool) for a closed pool. A pool of SQLite
    /// is also unsuitable if its database is in memory, or if its connections lock the file for
    /// themselves or set another journal mode than WAL.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::sqlx;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: u64) -> Result<u64> {
    ///     ok(order)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir().join(format!("from-pool-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("shop.db");
    /// let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    /// let pool = sqlx::SqlitePool::connect_with(options.create_if_missing(true)).await?;
    /// let client = Client::from_pool(pool.clone()).await?;
    /// let run = client.start(checkout, 42).await?;
    /// assert_eq!(run.status().await?, RunStatus::Pending);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_pool(pool: impl ApplicationPool) -> Connect {
        Connect::new(Database::Pool(Arc::new(pool)))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A store that is being opened.
type Opening = BoxFuture<'static, Result<Arc<dyn Store>, ConnectError>>;

/// Implements the trait for the pool of a driver.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
macro_rules! impl_pool {
    ($driver:ident, $store:ident) => {
        impl sealed::Sealed for $driver::Pool {}

        impl ApplicationPool for $driver::Pool {
            fn open(&self, options: StoreOptions) -> Opening {
                let pool = self.clone();
                Box::pin(
                    async move { Ok(Arc::new($driver::$store::open_pool(pool, options).await?) as Arc<dyn Store>) },
                )
            }

            fn database(&self) -> &'static str {
                $driver::DATABASE
            }
        }
    };
}

#[cfg(feature = "sqlite")]
impl_pool!(workflow_sqlite, SqliteStore);
#[cfg(feature = "postgres")]
impl_pool!(workflow_postgres, PostgresStore);
