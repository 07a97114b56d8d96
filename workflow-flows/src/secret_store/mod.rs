//! Secrets of flows in a table, sealed by a codec.

mod backend;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use workflow_sdk::{CodecError, CodedPayload, PayloadCodec, PayloadContext, Timestamp, sqlx};

use crate::database::{MissingFile, OpenError};
use crate::{ErrorClass, Secrets, ToolError};
use backend::{Backend, Row, TABLE};

/// The longest name of a secret or an account, in bytes.
const LONGEST_NAME: usize = 255;
/// The secrets that are read at once when they are copied: with the longest values they take a few
/// megabytes.
const SECRETS: u32 = 32;

/// A secret of a [`SecretStore`], without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretEntry {
    /// The name, as `{{secrets.name}}` has it.
    pub name: String,
    /// The account that the secret is for. Empty: every account that has none of this name.
    pub actor: String,
    /// The id of the key that opens the value.
    pub key_id: String,
    /// When the value was set.
    pub set_at: Timestamp,
}

/// A failure of a [`SecretStore`]. No text holds a part of a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretStoreError {
    /// The secret has a name, an account or a value that is not allowed.
    #[error("the secret is refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The codec did not seal or open the value.
    #[error("the secret {name:?} (key {key_id:?}): {source}; give the codec its key, or set the secret again")]
    Sealed {
        /// The name of the secret.
        name: String,
        /// The id of the key that opens it. Empty: it was not sealed.
        key_id: String,
        /// The failure of the codec.
        source: CodecError,
    },
    /// The target of a copy has another value of this secret.
    #[error("the target has another secret {name:?}; use an empty database")]
    Taken {
        /// The name.
        name: String,
    },
    /// The URL names no database that this program knows.
    #[error("{url:?} is no URL of a database; write sqlite://flows.db or postgres://host/database")]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// The database failed.
    #[error("the database of secrets: {0}")]
    Database(#[from] sqlx::Error),
}

impl From<OpenError> for SecretStoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url(url) => Self::Url { url },
            OpenError::Database(error) => Self::Database(error),
        }
    }
}

impl SecretStoreError {
    /// Returns the class with which a step fails. Another worker may have the key.
    const fn class(&self) -> ErrorClass {
        match self {
            Self::Database(_) | Self::Sealed { source: CodecError::UnknownKey, .. } => ErrorClass::Unavailable,
            _ => ErrorClass::Invalid,
        }
    }
}

/// [`Secrets`] in a table, whose values a codec seals before they are stored. A clone shares the
/// connections.
///
/// Give it the codec that encrypts the payloads of the client, such as `workflow_sdk::Encryption`.
/// The name and the account are sealed with the value, so a row that was copied over another one
/// is refused. Both stay readable. A codec that does not encrypt hides nothing.
///
/// ```
/// use workflow_flows::{FlowRuntime, SecretStore};
/// use workflow_sdk::{Encryption, EncryptionKey};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// // let key = std::env::var("PAYLOAD_KEY")?;
/// let encryption = Encryption::new(EncryptionKey::from_base64("2026-11", key)?);
/// let secrets = SecretStore::connect("sqlite::memory:", encryption).await?;
/// secrets.set("", "bank", "t0ken-of-the-bank").await?;
/// secrets.set("ann", "bank", "t0ken-of-ann").await?;
/// assert_eq!(secrets.list().await?.len(), 2);
/// let runtime = FlowRuntime::builder().secrets(secrets).build();
/// # let _ = runtime;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SecretStore {
    backend: Arc<Backend>,
    codec: Arc<dyn PayloadCodec>,
}

impl SecretStore {
    /// The longest value, in bytes.
    pub const LONGEST_VALUE: usize = 64 * 1_024;
    /// The most secrets that [`list`](Self::list) returns.
    pub const MAX_LIMIT: u32 = 1_000;

    /// Creates a store in the memory of this process.
    #[must_use]
    pub fn in_memory(codec: impl PayloadCodec) -> Self {
        Self { backend: Arc::new(Backend::Memory(Mutex::default())), codec: Arc::new(codec) }
    }

    /// Opens a store by the URL of a database, with at most two connections. Creates its table if
    /// there is none: on PostgreSQL, in the first schema of the search path. The URL
    /// `sqlite::memory:` gives a store in memory.
    ///
    /// # Errors
    /// [`SecretStoreError::Url`], [`SecretStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the table may or may not be created. Connecting again is safe.
    pub async fn connect(url: &str, codec: impl PayloadCodec) -> Result<Self, SecretStoreError> {
        let backend = Backend::open(url, MissingFile::Create).await?.prepared().await?;
        Ok(Self { backend: Arc::new(backend), codec: Arc::new(codec) })
    }

    /// Sets a secret of an account, or with an empty account that of every account that has none
    /// of this name. A value that was there is replaced. Names and accounts have at most 255 bytes
    /// and no control characters; a name and a value are not empty.
    ///
    /// # Errors
    /// [`SecretStoreError::Refused`] if a name, an account or a value is not allowed,
    /// [`SecretStoreError::Sealed`] if the codec fails, [`SecretStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the secret may or may not be set. Setting it again is safe.
    pub async fn set(&self, actor: &str, name: &str, value: &str) -> Result<(), SecretStoreError> {
        check_names(actor, name)?;
        if value.is_empty() || value.len() > Self::LONGEST_VALUE {
            let reason = format!("a value has 1 to {} bytes, not {}", Self::LONGEST_VALUE, value.len());
            return Err(SecretStoreError::Refused { reason });
        }
        let sealed = self.codec.encode(&PayloadContext::of_secret(actor, name), value.as_bytes());
        let sealed = sealed.map_err(|source| SecretStoreError::Sealed {
            name: name.to_owned(),
            key_id: String::new(),
            source,
        })?;
        let set_at = Timestamp::from(std::time::SystemTime::now()).as_micros();
        let CodedPayload { key_id, bytes } = sealed;
        self.backend.write(&(actor.to_owned(), name.to_owned(), key_id, STANDARD.encode(bytes), set_at)).await
    }

    /// Removes the secret of this account, or with an empty account that of all. Returns `false`
    /// if there is none.
    ///
    /// # Errors
    /// [`SecretStoreError::Refused`] if a name is not allowed, [`SecretStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the secret may or may not be removed. Removing it again is safe.
    pub async fn remove(&self, actor: &str, name: &str) -> Result<bool, SecretStoreError> {
        check_names(actor, name)?;
        self.backend.delete(actor, name).await
    }

    /// Returns the secrets without their values, in the order of their names: at most
    /// [`MAX_LIMIT`](Self::MAX_LIMIT).
    ///
    /// # Errors
    /// [`SecretStoreError::Database`].
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn list(&self) -> Result<Vec<SecretEntry>, SecretStoreError> {
        let rows = self.backend.rows("", "", Self::MAX_LIMIT).await?;
        let entry = |(actor, name, key_id, _, set_at): Row| SecretEntry {
            name,
            actor,
            key_id,
            set_at: Timestamp::from_micros(set_at),
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    /// Copies all secrets from the database at `from` to the one at `to`, as they are sealed, so it
    /// needs no key. Creates the table there if there is a secret. Does nothing if the first
    /// database has no secrets or is no file. Returns the number of secrets in the first database.
    /// Copying them again is safe.
    ///
    /// # Errors
    /// [`SecretStoreError::Taken`] if the second database has another value of one of them,
    /// [`SecretStoreError::Url`], [`SecretStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, some secrets may be copied.
    pub async fn transfer(from: &str, to: &str) -> Result<usize, SecretStoreError> {
        let Some(source) = Backend::find(from, TABLE).await? else { return Ok(0) };
        let (mut target, mut after, mut copied) = (None, (String::new(), String::new()), 0);
        loop {
            let rows = source.rows(&after.0, &after.1, SECRETS).await?;
            let Some((actor, name, ..)) = rows.last() else { return Ok(copied) };
            after = (name.clone(), actor.clone());
            copied += rows.len();
            let target = match &target {
                Some(target) => target,
                None => target.insert(Backend::open(to, MissingFile::Create).await?.prepared().await?),
            };
            for row in rows {
                if !target.copy(&row).await? {
                    return Err(SecretStoreError::Taken { name: row.1 });
                }
            }
        }
    }

    /// Opens the value of the secret for this account.
    async fn value(&self, actor: &str, name: &str) -> Result<Option<String>, SecretStoreError> {
        if check_names(actor, name).is_err() {
            return Ok(None);
        }
        let Some((actor, name, key_id, sealed, _)) = self.backend.secret(actor, name).await? else { return Ok(None) };
        let coded = STANDARD.decode(sealed).map(|bytes| CodedPayload::new(key_id.clone(), bytes));
        let context = PayloadContext::of_secret(&actor, &name);
        let opened = coded.map_err(|_| CodecError::NotAuthentic).and_then(|coded| self.codec.decode(&context, &coded));
        let text = opened.and_then(|bytes| String::from_utf8(bytes).map_err(|_| CodecError::NotAuthentic));
        text.map(Some).map_err(|source| SecretStoreError::Sealed { name, key_id, source })
    }
}

#[async_trait]
impl Secrets for SecretStore {
    async fn get(&self, actor: &str, name: &str) -> Result<Option<String>, ToolError> {
        self.value(actor, name).await.map_err(|error| ToolError::new(error.class(), error.to_string()))
    }
}

fn check_names(actor: &str, name: &str) -> Result<(), SecretStoreError> {
    let refused = |reason: String| Err(SecretStoreError::Refused { reason });
    if name.is_empty() {
        return refused("the name is empty".to_owned());
    }
    for (what, text) in [("name", name), ("account", actor)] {
        if text.len() > LONGEST_NAME {
            return refused(format!("the {what} has {} bytes, at most {LONGEST_NAME} are allowed", text.len()));
        }
        if text.contains(char::is_control) {
            return refused(format!("the {what} has a control character"));
        }
    }
    Ok(())
}

impl fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretStore").field("backend", &self.backend.kind()).finish_non_exhaustive()
    }
}
