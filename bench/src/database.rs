//! The database of a benchmark: always a fresh one, removed at the end.

use std::io::ErrorKind;
use std::path::PathBuf;

use sqlx::Connection;
use workflow_sdk::{Client, Encryption, EncryptionKey};

use crate::BoxResult;

/// Where the databases of a benchmark are made.
#[derive(Debug)]
pub(crate) enum Place {
    /// One SQLite file after the other, in a directory of its own.
    Directory(tempfile::TempDir),
    /// One SQLite file after the other, at this path.
    File(PathBuf),
    /// One schema after the other, in the database of this URL.
    Postgres(String),
}

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A fresh database. [`Database::remove`] removes it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) schema: String,
    file: Option<PathBuf>,
}

impl Place {
    /// What `--database` names; SQLite files in a temporary directory without it.
    pub(crate) fn parse(database: Option<&str>) -> BoxResult<Self> {
        let Some(url) = database else { return Ok(Self::Directory(tempfile::tempdir()?)) };
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty() && !path.contains('?'));
        let path = PathBuf::from(path.ok_or("--database: give sqlite://<path> or postgres://user@host/database")?);
        if path.exists() {
            return Err(
                format!("{} exists: a benchmark makes its file and removes it; name another", path.display()).into()
            );
        }
        Ok(Self::File(path))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Directory(_) | Self::File(_) => Kind::Sqlite,
            Self::Postgres(_) => Kind::Postgres,
        }
    }

    /// Another empty database, without tables yet.
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
    /// A client, with a connection and an executor of its own; the first one makes the tables.
    pub(crate) async fn client(&self) -> BoxResult<Client> {
        Ok(Client::connect(&self.url).schema(&self.schema).await?)
    }

    /// A client that encrypts payloads.
    pub(crate) async fn encrypted_client(&self) -> BoxResult<Client> {
        let key = EncryptionKey::new("bench", [7; 32])?;
        Ok(Client::connect(&self.url).schema(&self.schema).codec(Encryption::new(key)).await?)
    }

    /// The same one on PostgreSQL, by another way to its server.
    pub(crate) fn through(&self, url: &str) -> Self {
        Self { url: url.to_owned(), schema: self.schema.clone(), file: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.file.is_some() { Kind::Sqlite } else { Kind::Postgres }
    }

    /// The table as a statement names it.
    pub(crate) fn table(&self, name: &str) -> String {
        if self.file.is_some() { name.to_owned() } else { format!("{}.{name}", self.schema) }
    }

    /// Removes it. Nothing may use it any more.
    pub(crate) async fn remove(self) -> BoxResult<()> {
        if let Some(file) = self.file {
            let directory = file.parent().ok_or("a file lies in a directory")?.to_owned();
            let name = file.file_name().ok_or("a file has a name")?.to_string_lossy().into_owned();
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                // The WAL, its index and the files of the workers' locks lie beside it and begin with its name.
                if entry.file_name().to_string_lossy().starts_with(&name) {
                    let path = entry.path();
                    let removed =
                        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
                    // The last connection of a client that was dropped removes the WAL itself, a little later.
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
