//! Whether the paths of a database still lead to the files that are open.
//!
//! SQLite goes on with files that were removed or replaced, so every commit would succeed and be
//! lost. A connection that is opened later would even use other files than the earlier ones.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use workflow_engine::faults::planted;
use workflow_engine::store::{DatabaseError, DatabaseErrorKind};

/// After a pause as long as this, the files are checked before a commit too, not only after it.
const PAUSE: Duration = Duration::from_millis(20);

/// The database, its WAL and its shared memory, as they were when they were opened.
#[derive(Debug)]
pub(super) struct FileIdentity {
    files: Vec<(PathBuf, Identity)>,
    checked: Mutex<Instant>,
}

/// The device and the number of a file.
type Identity = (u64, u64);

impl FileIdentity {
    /// Remembers the files of this database. A connection must be open that has read, and must stay
    /// open: otherwise SQLite itself removes the files beside the database.
    pub(super) fn of(database: &Path) -> Self {
        let files = ["", "-wal", "-shm"].map(|suffix| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        });
        let known = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        Self { files: files.into_iter().filter_map(known).collect(), checked: Mutex::new(Instant::now()) }
    }

    /// Checks the files.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Unreachable`] if a file was removed, moved or replaced.
    pub(super) fn check(&self, operation: &'static str) -> Result<(), DatabaseError> {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        match self.files.iter().find(|(path, known)| identity(path) != Some(*known)) {
            None => Ok(()),
            Some(_) if planted("unchecked-files") => Ok(()),
            Some((path, _)) => {
                let why = format!(
                    "the file {path:?} was removed, moved or replaced while it was in use, so nothing more is \
                     acknowledged; put the same file back, or restart every process that uses it"
                );
                Err(DatabaseError::new(DatabaseErrorKind::Unreachable, operation, why))
            }
        }
    }

    /// Checks the files if they were not checked for a while.
    ///
    /// # Errors
    /// See [`FileIdentity::check`].
    pub(super) fn check_after_pause(&self, operation: &'static str) -> Result<(), DatabaseError> {
        let checked = *self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.elapsed() < PAUSE { Ok(()) } else { self.check(operation) }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Without device and number, only a removed file is noticed.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    path.exists().then_some((0, 0))
}
