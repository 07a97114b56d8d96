//! Starts, signals, cancels and emissions in a transaction of the application, so that both are
//! committed together or not at all.

use std::io;
use std::path::Path;

use sqlx::SqliteConnection;

use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, Write, apply_within};

use super::error::{During, within_deadline};
use super::slow_path::SlowPath;
use super::{SqliteStore, sql};

/// Names the operation of the write, as errors show it.
fn operation(write: &Write) -> &'static str {
    match write {
        Write::Start(_) => "start a run in the application's transaction",
        Write::Signal(_) => "send a signal in the application's transaction",
        Write::Emit(_) => "emit an event in the application's transaction",
        Write::Cancel(_) => "cancel a run in the application's transaction",
        _ => "write in the application's transaction",
    }
}

impl SqliteStore {
    /// Starts, signals or cancels a run, or emits an event, in a transaction that the caller
    /// commits. `own` is `true` if this store began it.
    ///
    /// # Errors
    /// [`DatabaseError`] of the database. The kind is [`DatabaseErrorKind::Invalid`] if the
    /// connection leads to another database.
    pub(crate) async fn write_within(
        &self,
        connection: &mut SqliteConnection,
        own: bool,
        write: &Write,
    ) -> Result<Outcome, DatabaseError> {
        let operation = operation(write);
        within_deadline(operation, async {
            self.check_same_file(connection, own, operation).await?;
            self.database.check_files(operation)?;
            apply_within(&mut SlowPath::new(connection, self.database.now()), write).await
        })
        .await
    }

    /// Refuses a connection to another file: no worker of this database would see the run, even if
    /// that file has our tables.
    async fn check_same_file(
        &self,
        connection: &mut SqliteConnection,
        own: bool,
        operation: &'static str,
    ) -> Result<(), DatabaseError> {
        if own {
            return Ok(());
        }
        let query = sqlx::query_scalar(sql::READ_MAIN_FILE);
        let file: Option<String> = query.fetch_one(connection).await.during(operation)?;
        let theirs = file.unwrap_or_default();
        let ours = self.database.file.as_ref().map(|file| file.path.as_path());
        if ours.is_some_and(|ours| is_same_file(ours, Path::new(&theirs)).unwrap_or(false)) {
            return Ok(());
        }
        let shown =
            |path: &Path| format!("{:?}", if path.as_os_str().is_empty() { Path::new(":memory:") } else { path });
        let why = format!(
            "the transaction belongs to another database file ({}) than the client's ({})",
            shown(Path::new(&theirs)),
            shown(ours.unwrap_or(Path::new("")))
        );
        Err(DatabaseError::new(DatabaseErrorKind::Invalid, operation, why))
    }
}

/// Compares inodes where they exist, because a file can have several paths.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(one.canonicalize()? == other.canonicalize()?)
}
