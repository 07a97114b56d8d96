//! The database of a benchmark. It is always a new one and is removed at the end.

use std::io::ErrorKind;
use std::path::PathBuf;

use sqlx::Connection;
use workflow_sdk::metrics::Metrics;
use workflow_sdk::{Client, Encryption, EncryptionKey};

use crate::BoxResult;

/// Where a benchmark creates its databases.
#[derive(Debug)]
pub(crate) enum Location {
    /// A temporary directory for SQLite files.
    Directory(tempfile::TempDir),
    /// The path of the SQLite file, which is created anew for each database.
    File(PathBuf),
    /// The URL of a PostgreSQL database, in which each database of the benchmark is a schema.
    Postgres(String),
}

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A new database, to be removed with [`Database::remove`].
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) schema: String,
    file: Option<PathBuf>,
}

impl Location {
    /// Parses `--database`. Without it, SQLite files are created in a temporary directory.
    pub(crate) fn parse(database: Option<&str>) -> BoxResult<Self> {
        let Some(url) = database else { return Ok(Self::Directory(tempfile::tempdir()?)) };
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty() && !path.contains('?'));
        let path = PathBuf::from(path.ok_or("--database: expected sqlite://<path> or postgres://user@host/database")?);
        if path.exists() {
            return Err(format!(
                "{} exists: a benchmark creates and removes its file; name another one",
                path.display()
            )
            .into());
        }
        Ok(Self::File(path))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Directory(_) | Self::File(_) => Kind::Sqlite,
            Self::Postgres(_) => Kind::Postgres,
        }
    }

    /// Returns another empty database, which does not have tables yet.
    pub(crate) fn fresh(&self) -> Database {
        let name = format!("bench_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let file = match self {
            Self::Directory(directory) => directory.path().join(format!("{name}.db")),
            Self::File(path) => path.clone(),
            Self::Postgres(url) => return Database { url: url.clone(), schema: name, file: None },
        };
        Database { url: format!("sqlite://{}", file.display()), schema: name, file: Some(file) }
    }
}

impl Database {
    /// Connects a client with a connection and an executor of its own. The first client creates the
    /// tables.
    pub(crate) async fn client(&self) -> BoxResult<Client> {
        Ok(Client::connect(&self.url).schema(&self.schema).await?)
    }

    /// Connects a client with this observer.
    pub(crate) async fn observed_client(&self, observer: Metrics) -> BoxResult<Client> {
        Ok(Client::connect(&self.url).schema(&self.schema).observer(observer).await?)
    }

    /// Connects a client that encrypts payloads.
    pub(crate) async fn encrypted_client(&self) -> BoxResult<Client> {
        let key = EncryptionKey::new("bench", [7; 32])?;
        Ok(Client::connect(&self.url).schema(&self.schema).codec(Encryption::new(key)).await?)
    }

    /// Returns this PostgreSQL database as seen through another URL, such as that of a proxy.
    pub(crate) fn through(&self, url: &str) -> Self {
        Self { url: url.to_owned(), schema: self.schema.clone(), file: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.file.is_some() { Kind::Sqlite } else { Kind::Postgres }
    }

    /// Returns the table's name as a statement needs it, with the schema on PostgreSQL.
    pub(crate) fn table(&self, name: &str) -> String {
        if self.file.is_some() { name.to_owned() } else { format!("{}.{name}", self.schema) }
    }

    /// Removes the database, which must not be in use.
    pub(crate) async fn remove(self) -> BoxResult<()> {
        if let Some(file) = self.file {
            let directory = file.parent().ok_or("the path has no parent directory")?.to_owned();
            let name = file.file_name().ok_or("the path has no file name")?.to_string_lossy().into_owned();
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                // The WAL, its index and the workers' lock files are in the same directory, and
                // their names begin with the file's name.
                if entry.file_name().to_string_lossy().starts_with(&name) {
                    let path = entry.path();
                    let removed =
                        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
                    // When a client is dropped, its last connection removes the WAL a little later.
                    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
                }
            }
            return Ok(());
        }
        let mut connection = sqlx::PgConnection::connect(&self.url).await?;
        let drop = sqlx::AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.schema));
        sqlx::query(drop).execute(&mut connection).await?;
        Ok(())
    }
}
