//! Starts and signals in a transaction of the application's own, so that its data and they are committed together or not at all.

use std::io;
use std::path::Path;

use sqlx::SqliteConnection;

use crate::backend::{BackendError, BackendErrorKind, StartOutcome};
use crate::model::{NewRun, NewSignal, SignalOutcome};

use super::SqliteBackend;
use super::error::{During, within_deadline};
use super::fence::Fence;
use super::{signal, sql, start};

const OPERATION: &str = "start a run in the application's transaction";

impl SqliteBackend {
    /// Starts a run in the application's own transaction: it exists if and only if that transaction commits. After an
    /// error the application must roll back.
    ///
    /// # Errors
    /// The database's; kind [`BackendErrorKind::Invalid`] if the connection leads to another database.
    pub(crate) async fn start_within(
        &self,
        connection: &mut SqliteConnection,
        run: &NewRun,
    ) -> Result<StartOutcome, BackendError> {
        within_deadline(OPERATION, async {
            self.check_same_file(connection).await?;
            let outcomes = start::start(connection, &[run], self.database.now()).await?;
            let none = || BackendError::new(BackendErrorKind::Other, OPERATION, "a start has no outcome");
            outcomes.into_iter().next().ok_or_else(none)
        })
        .await
    }

    /// Sends a signal in the application's own transaction: it is sent if and only if that transaction commits. After an
    /// error the application must roll back.
    ///
    /// # Errors
    /// As [`SqliteBackend::start_within`].
    pub(crate) async fn signal_within(
        &self,
        connection: &mut SqliteConnection,
        new: &NewSignal,
    ) -> Result<SignalOutcome, BackendError> {
        const OPERATION: &str = "send a signal in the application's transaction";
        within_deadline(OPERATION, async {
            self.check_same_file(connection).await?;
            let fence = Fence::of(connection, &[new.run_id].into()).await?;
            let outcomes = signal::send(connection, &[new], self.database.now(), &fence).await?;
            let none = || BackendError::new(BackendErrorKind::Other, OPERATION, "a signal has no outcome");
            outcomes.into_iter().next().ok_or_else(none)
        })
        .await
    }

    /// A run in another file, even one with our tables, would be seen by no worker of this database.
    async fn check_same_file(&self, connection: &mut SqliteConnection) -> Result<(), BackendError> {
        let query = sqlx::query_scalar(sql::READ_MAIN_FILE);
        let file: Option<String> = query.fetch_one(connection).await.during(OPERATION)?;
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
        Err(BackendError::new(BackendErrorKind::Invalid, OPERATION, why))
    }
}

/// By inode where there is one: a file can have several paths.
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
