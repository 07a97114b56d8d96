//! The statements of the store of secrets.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_sdk::sqlx;

use super::SecretStoreError;
use crate::database::{Database, fetch};

pub(super) const TABLE: &str = "workflow_flow_secrets";

const CREATE: &str = include_str!("../../sql/create_secrets.sql");
const WRITE: &str = include_str!("../../sql/write_secret.sql");
const COPY: &str = include_str!("../../sql/copy_secret.sql");
const FIND: &str = include_str!("../../sql/find_secret.sql");
const LIST: &str = include_str!("../../sql/list_secrets.sql");
const DELETE: &str = include_str!("../../sql/delete_secret.sql");

/// A secret as it is stored: account, name, id of the key, sealed value in base64, and when it was
/// set.
pub(super) type Row = (String, String, String, String, i64);

/// The secrets by name and account.
type Rows = BTreeMap<(String, String), Row>;

pub(super) type Backend = Database<Mutex<Rows>>;

impl Backend {
    /// Creates the table.
    pub(super) async fn prepared(self) -> Result<Self, SecretStoreError> {
        self.create(TABLE, &[CREATE], &[CREATE]).await?;
        Ok(self)
    }

    /// Inserts a secret, or replaces it.
    pub(super) async fn write(&self, row: &Row) -> Result<(), SecretStoreError> {
        self.insert(WRITE, row).await?;
        Ok(())
    }

    /// Inserts a secret as it was stored elsewhere. Returns `false` if another one stands there.
    pub(super) async fn copy(&self, row: &Row) -> Result<bool, SecretStoreError> {
        self.insert(COPY, row).await
    }

    /// Returns whether a row was inserted or replaced.
    async fn insert(&self, statement: &'static str, row: &Row) -> Result<bool, SecretStoreError> {
        let (actor, name, key_id, sealed, set_at) = row;
        macro_rules! insert {
            ($pool:expr) => {{
                let insert = sqlx::query(statement).bind(actor).bind(name).bind(key_id).bind(sealed).bind(set_at);
                Ok(insert.execute($pool).await?.rows_affected() > 0)
            }};
        }
        match self {
            Self::Memory(rows) => {
                lock(rows).insert((name.clone(), actor.clone()), row.clone());
                Ok(true)
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => insert!(pool),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => insert!(pool),
        }
    }

    /// Returns the secret of this account, or else the one of all accounts.
    pub(super) async fn secret(&self, actor: &str, name: &str) -> Result<Option<Row>, SecretStoreError> {
        let in_memory = |rows: &Mutex<Rows>| -> Vec<Row> {
            let rows = lock(rows);
            let of = |actor: &str| rows.get(&(name.to_owned(), actor.to_owned())).cloned();
            of(actor).or_else(|| of("")).into_iter().collect()
        };
        let found: Result<Vec<Row>, SecretStoreError> = fetch!(self, in_memory, FIND, FIND, Ok, [name, actor]);
        Ok(found?.into_iter().next())
    }

    /// Returns the secrets behind this name and account.
    pub(super) async fn rows(&self, name: &str, actor: &str, limit: u32) -> Result<Vec<Row>, SecretStoreError> {
        let in_memory = |rows: &Mutex<Rows>| -> Vec<Row> {
            let behind = (Bound::Excluded((name.to_owned(), actor.to_owned())), Bound::Unbounded);
            lock(rows).range(behind).map(|(_, row)| row.clone()).take(limit as usize).collect()
        };
        fetch!(self, in_memory, LIST, LIST, Ok, [name, actor, i64::from(limit)])
    }

    /// Deletes a secret. Returns whether it was there.
    pub(super) async fn delete(&self, actor: &str, name: &str) -> Result<bool, SecretStoreError> {
        macro_rules! delete {
            ($pool:expr) => {
                Ok(sqlx::query(DELETE).bind(actor).bind(name).execute($pool).await?.rows_affected() > 0)
            };
        }
        match self {
            Self::Memory(rows) => Ok(lock(rows).remove(&(name.to_owned(), actor.to_owned())).is_some()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => delete!(pool),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => delete!(pool),
        }
    }
}

fn lock(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}
