use std::future::Future;

#[cfg(feature = "testing")]
use crate::backend::MEMORY;
#[cfg(feature = "testing")]
use crate::backend::memory::{MemoryBackend, Within};
use crate::backend::{Backend, CancelOutcome, StartOutcome};
use crate::model::{NewRun, NewSignal, RunId, SignalOutcome};
use crate::transaction::{TransactionOver, Tx};

use super::ClientError;

/// A transaction of the application's own, in which a run can be started, signaled or canceled: `sqlx::Transaction` of SQLite or
/// PostgreSQL, or a connection on which the application began one itself; in the body of
/// [`Ctx::transaction`](crate::Ctx::transaction), its [`Tx`].
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::sqlx;
///
/// #[workflow]
/// async fn checkout(ctx: &Ctx, order: u64) -> Result<u64> {
///     Ok(order)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("within-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let path = directory.join("orders.db");
/// # let url = format!("sqlite://{}", path.display());
/// let client = Client::connect(&url).await?;
/// let pool = sqlx::SqlitePool::connect(&url).await?;
/// let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
/// // ... the application's own statements ...
/// let run = client.start(checkout, 42).within(&mut transaction).await?;
/// transaction.commit().await?;
/// assert_eq!(run.status().await?, RunStatus::Pending);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok(())
/// # }
/// ```
pub trait ApplicationTransaction: sealed::Sealed + Send {
    /// Starts the run in this transaction.
    #[doc(hidden)]
    fn start(
        &mut self,
        backend: &dyn Backend,
        run: &NewRun,
    ) -> impl Future<Output = Result<StartOutcome, ClientError>> + Send;

    /// Sends the signal in this transaction.
    #[doc(hidden)]
    fn signal(
        &mut self,
        backend: &dyn Backend,
        signal: &NewSignal,
    ) -> impl Future<Output = Result<SignalOutcome, ClientError>> + Send;

    /// Cancels the run in this transaction.
    #[doc(hidden)]
    fn cancel(
        &mut self,
        backend: &dyn Backend,
        run: RunId,
    ) -> impl Future<Output = Result<CancelOutcome, ClientError>> + Send;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Tx {}

impl ApplicationTransaction for Tx {
    async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
        let own = self.belongs_to(backend);
        #[cfg(feature = "sqlite")]
        if let Some(connection) = self.connection_of()? {
            return Ok(sqlite::backend(backend)?.start_within(connection, own, run).await?);
        }
        #[cfg(feature = "postgres")]
        if let Some(connection) = self.connection_of()? {
            return Ok(postgres::backend(backend)?.start_within(connection, run).await?);
        }
        #[cfg(feature = "testing")]
        if let Some(within) = self.connection_of::<Within>()? {
            return Ok(within.start(of_memory(backend)?, run)?);
        }
        let _ = (own, run);
        Err(TransactionOver.into())
    }

    async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
        let own = self.belongs_to(backend);
        #[cfg(feature = "sqlite")]
        if let Some(connection) = self.connection_of()? {
            return Ok(sqlite::backend(backend)?.signal_within(connection, own, signal).await?);
        }
        #[cfg(feature = "postgres")]
        if let Some(connection) = self.connection_of()? {
            return Ok(postgres::backend(backend)?.signal_within(connection, signal).await?);
        }
        #[cfg(feature = "testing")]
        if let Some(within) = self.connection_of::<Within>()? {
            return Ok(within.signal(of_memory(backend)?, signal)?);
        }
        let _ = (own, signal);
        Err(TransactionOver.into())
    }

    async fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, ClientError> {
        let own = self.belongs_to(backend);
        #[cfg(feature = "sqlite")]
        if let Some(connection) = self.connection_of()? {
            return Ok(sqlite::backend(backend)?.cancel_within(connection, own, run).await?);
        }
        #[cfg(feature = "postgres")]
        if let Some(connection) = self.connection_of()? {
            return Ok(postgres::backend(backend)?.cancel_within(connection, run).await?);
        }
        #[cfg(feature = "testing")]
        if let Some(within) = self.connection_of::<Within>()? {
            return Ok(within.cancel(of_memory(backend)?, run)?);
        }
        let _ = (own, run);
        Err(TransactionOver.into())
    }
}

/// The kind of database that the client is connected to, as people call it.
fn name_of(backend: &dyn Backend) -> &'static str {
    #[cfg(feature = "testing")]
    if backend.as_any().is::<MemoryBackend>() {
        return MEMORY;
    }
    #[cfg(feature = "sqlite")]
    if backend.as_any().is::<crate::backend::sqlite::SqliteBackend>() {
        return "SQLite";
    }
    let _ = backend;
    "PostgreSQL"
}

/// The client's backend, if it is in memory as the transaction is.
#[cfg(feature = "testing")]
fn of_memory(backend: &dyn Backend) -> Result<&dyn Backend, ClientError> {
    if backend.as_any().is::<MemoryBackend>() {
        return Ok(backend);
    }
    Err(ClientError::OtherDatabase { client: name_of(backend), transaction: MEMORY })
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use sqlx::{Sqlite, SqliteConnection, Transaction};

    use crate::backend::sqlite::SqliteBackend;

    use super::{
        ApplicationTransaction, Backend, CancelOutcome, ClientError, NewRun, NewSignal, RunId, SignalOutcome,
        StartOutcome, sealed,
    };

    pub(super) fn backend(backend: &dyn Backend) -> Result<&SqliteBackend, ClientError> {
        let other = ClientError::OtherDatabase { client: super::name_of(backend), transaction: "SQLite" };
        backend.as_any().downcast_ref().ok_or(other)
    }

    impl sealed::Sealed for SqliteConnection {}

    impl ApplicationTransaction for SqliteConnection {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            Ok(self::backend(backend)?.start_within(self, false, run).await?)
        }

        async fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, ClientError> {
            Ok(self::backend(backend)?.cancel_within(self, false, run).await?)
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            Ok(self::backend(backend)?.signal_within(self, false, signal).await?)
        }
    }

    impl sealed::Sealed for Transaction<'_, Sqlite> {}

    impl ApplicationTransaction for Transaction<'_, Sqlite> {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            ApplicationTransaction::start(&mut **self, backend, run).await
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            ApplicationTransaction::signal(&mut **self, backend, signal).await
        }

        async fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, ClientError> {
            ApplicationTransaction::cancel(&mut **self, backend, run).await
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::{PgConnection, Postgres, Transaction};

    use crate::backend::postgres::PostgresBackend;

    use super::{
        ApplicationTransaction, Backend, CancelOutcome, ClientError, NewRun, NewSignal, RunId, SignalOutcome,
        StartOutcome, sealed,
    };

    pub(super) fn backend(backend: &dyn Backend) -> Result<&PostgresBackend, ClientError> {
        let other = ClientError::OtherDatabase { client: super::name_of(backend), transaction: "PostgreSQL" };
        backend.as_any().downcast_ref().ok_or(other)
    }

    impl sealed::Sealed for PgConnection {}

    impl ApplicationTransaction for PgConnection {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            Ok(self::backend(backend)?.start_within(self, run).await?)
        }

        async fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, ClientError> {
            Ok(self::backend(backend)?.cancel_within(self, run).await?)
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            Ok(self::backend(backend)?.signal_within(self, signal).await?)
        }
    }

    impl sealed::Sealed for Transaction<'_, Postgres> {}

    impl ApplicationTransaction for Transaction<'_, Postgres> {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            ApplicationTransaction::start(&mut **self, backend, run).await
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            ApplicationTransaction::signal(&mut **self, backend, signal).await
        }

        async fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, ClientError> {
            ApplicationTransaction::cancel(&mut **self, backend, run).await
        }
    }
}
