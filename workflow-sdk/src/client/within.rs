use std::future::Future;

use crate::backend::{Backend, StartOutcome};
use crate::model::{NewRun, NewSignal, SignalOutcome};

use super::ClientError;

/// A transaction of the application's own, in which a run can be started, or a signal sent: `sqlx::Transaction` of SQLite or PostgreSQL, or a
/// connection on which the application began one itself.
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
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use sqlx::{Sqlite, SqliteConnection, Transaction};

    use crate::backend::sqlite::SqliteBackend;

    use super::{ApplicationTransaction, Backend, ClientError, NewRun, NewSignal, SignalOutcome, StartOutcome, sealed};

    impl sealed::Sealed for SqliteConnection {}

    impl ApplicationTransaction for SqliteConnection {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            Ok(own_backend(backend)?.start_within(self, run).await?)
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            Ok(own_backend(backend)?.signal_within(self, signal).await?)
        }
    }

    fn own_backend(backend: &dyn Backend) -> Result<&SqliteBackend, ClientError> {
        let other = ClientError::OtherDatabase { client: "PostgreSQL", transaction: "SQLite" };
        backend.as_any().downcast_ref::<SqliteBackend>().ok_or(other)
    }

    impl sealed::Sealed for Transaction<'_, Sqlite> {}

    impl ApplicationTransaction for Transaction<'_, Sqlite> {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            ApplicationTransaction::start(&mut **self, backend, run).await
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            ApplicationTransaction::signal(&mut **self, backend, signal).await
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::{PgConnection, Postgres, Transaction};

    use crate::backend::postgres::PostgresBackend;

    use super::{ApplicationTransaction, Backend, ClientError, NewRun, NewSignal, SignalOutcome, StartOutcome, sealed};

    impl sealed::Sealed for PgConnection {}

    impl ApplicationTransaction for PgConnection {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            Ok(own_backend(backend)?.start_within(self, run).await?)
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            Ok(own_backend(backend)?.signal_within(self, signal).await?)
        }
    }

    fn own_backend(backend: &dyn Backend) -> Result<&PostgresBackend, ClientError> {
        let other = ClientError::OtherDatabase { client: "SQLite", transaction: "PostgreSQL" };
        backend.as_any().downcast_ref::<PostgresBackend>().ok_or(other)
    }

    impl sealed::Sealed for Transaction<'_, Postgres> {}

    impl ApplicationTransaction for Transaction<'_, Postgres> {
        async fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, ClientError> {
            ApplicationTransaction::start(&mut **self, backend, run).await
        }

        async fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, ClientError> {
            ApplicationTransaction::signal(&mut **self, backend, signal).await
        }
    }
}
