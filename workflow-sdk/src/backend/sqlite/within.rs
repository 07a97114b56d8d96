//! Starts, signals and cancels in a transaction of the application's own, so that its data and they are committed together or not
//! at all.

use std::io;
use std::path::Path;

use sqlx::SqliteConnection;

use super::error::{During, within_deadline};
use super::family;
use super::{SqliteBackend, fence, settle, signal, sql, start};
use crate::backend::ended::Ended;
use crate::backend::fence::Asked;
use crate::backend::{BackendError, BackendErrorKind, CancelOutcome, StartOutcome};
use crate::model::{NewRun, NewSignal, RunId, SignalOutcome};

const OPERATION: &str = "start a run in the application's transaction";
const CANCEL: &str = "cancel a run in the application's transaction";

impl SqliteBackend {
    /// Starts a run in the application's own transaction: it exists if and only if that transaction commits. After an
    /// error the application must roll back. `own`: the connection is one of this backend.
    ///
    /// # Errors
    /// The database's; kind [`BackendErrorKind::Invalid`] if the connection leads to another database.
    pub(crate) async fn start_within(
        &self,
        connection: &mut SqliteConnection,
        own: bool,
        run: &NewRun,
    ) -> Result<StartOutcome, BackendError> {
        within_deadline(OPERATION, async {
            self.check_same_file(connection, own).await?;
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
        own: bool,
        new: &NewSignal,
    ) -> Result<SignalOutcome, BackendError> {
        const OPERATION: &str = "send a signal in the application's transaction";
        within_deadline(OPERATION, async {
            self.check_same_file(connection, own).await?;
            let fence = fence::read(connection, &Asked::from([(new.run_id, None)])).await?;
            let outcomes = signal::send(connection, &[new], self.database.now(), &fence).await?;
            let none = || BackendError::new(BackendErrorKind::Other, OPERATION, "a signal has no outcome");
            outcomes.into_iter().next().ok_or_else(none)
        })
        .await
    }

    /// Cancels a run in the application's own transaction. Otherwise as [`SqliteBackend::start_within`].
    ///
    /// # Errors
    /// As [`SqliteBackend::start_within`].
    pub(crate) async fn cancel_within(
        &self,
        connection: &mut SqliteConnection,
        own: bool,
        run: RunId,
    ) -> Result<CancelOutcome, BackendError> {
        within_deadline(CANCEL, async {
            self.check_same_file(connection, own).await?;
            let now = self.database.now();
            let outcomes = settle::cancel_runs(connection, &[run], now).await?;
            let none = || BackendError::new(BackendErrorKind::Other, CANCEL, "a cancel has no outcome");
            let outcome = outcomes.into_iter().next().ok_or_else(none)?;
            family::tell(connection, Ended::by_cancel(run, outcome), now).await?;
            Ok(outcome)
        })
        .await
    }

    /// A run in another file, even one with our tables, would be seen by no worker of this database.
    async fn check_same_file(&self, connection: &mut SqliteConnection, own: bool) -> Result<(), BackendError> {
        if own {
            return Ok(());
        }
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
