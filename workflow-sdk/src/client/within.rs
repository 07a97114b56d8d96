use workflow_engine::store::{ForeignTransaction, Outcome, WithinError, Write};

use crate::transaction::{TransactionOver, Tx};

use super::{Client, ClientError};

/// A transaction of the application, in which a run can be started, signaled or canceled, and an
/// event can be emitted: `sqlx::Transaction` of SQLite or PostgreSQL, or a connection on which the
/// application began one. In the body of [`Ctx::transaction`](crate::Ctx::transaction) it is the
/// [`Tx`].
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
    /// Returns the connection on which the transaction is open.
    #[doc(hidden)]
    fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver>;
}

mod sealed {
    pub trait Sealed {}
}

/// Commits a write together with the transaction.
pub(super) async fn commit_within<T: ApplicationTransaction>(
    client: &Client,
    transaction: &mut T,
    write: &Write,
) -> Result<Outcome, ClientError> {
    let written = client.store().commit_within(transaction.open()?, write).await;
    written.map_err(|error| match error {
        WithinError::OtherDatabase { store, transaction } => ClientError::OtherDatabase { client: store, transaction },
        WithinError::Isolation { level } => ClientError::Isolation { level },
        WithinError::Database(error) => error.into(),
    })
}

impl sealed::Sealed for Tx {}

impl ApplicationTransaction for Tx {
    fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
        self.foreign()
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use workflow_sqlite::{DATABASE, SqliteConnection, SqliteTransaction};

    use super::{ApplicationTransaction, ForeignTransaction, TransactionOver, sealed};

    impl sealed::Sealed for SqliteConnection {}

    impl ApplicationTransaction for SqliteConnection {
        fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
            Ok(ForeignTransaction { connection: self, database: DATABASE, origin: None })
        }
    }

    impl sealed::Sealed for SqliteTransaction<'_> {}

    impl ApplicationTransaction for SqliteTransaction<'_> {
        fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
            (**self).open()
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use workflow_postgres::{DATABASE, PgConnection, PgTransaction};

    use super::{ApplicationTransaction, ForeignTransaction, TransactionOver, sealed};

    impl sealed::Sealed for PgConnection {}

    impl ApplicationTransaction for PgConnection {
        fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
            Ok(ForeignTransaction { connection: self, database: DATABASE, origin: None })
        }
    }

    impl sealed::Sealed for PgTransaction<'_> {}

    impl ApplicationTransaction for PgTransaction<'_> {
        fn open(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
            (**self).open()
        }
    }
}
