//! The liveness lock of a worker: a lock of the operating system on a file beside the database. It
//! vanishes with the process, however the process ends.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use workflow_engine::model::WorkerId;

/// How long a worker without a lock file is not taken for dead, from its start: its file may lie in
/// a directory that this process does not see.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);

/// The directory of the lock files of one database.
///
/// With the right to write to it, another user could free or take the lock of every worker. So a
/// directory that another user may have prepared is refused.
#[derive(Clone, Debug)]
pub(super) struct LockFiles {
    database: PathBuf,
    directory: PathBuf,
}

/// A lock that this process holds for as long as this value lives.
#[derive(Debug)]
pub(super) struct HeldLock {
    path: PathBuf,
    _file: File,
}

impl LockFiles {
    /// Returns the directory for the database in this file.
    pub(super) fn of(database: &Path) -> Self {
        let mut directory = database.as_os_str().to_owned();
        directory.push("-workers");
        Self { database: database.to_owned(), directory: directory.into() }
    }

    /// Locks the file of a worker and creates it if it is missing.
    pub(super) fn lock(&self, worker: WorkerId) -> io::Result<HeldLock> {
        self.create_directory()?;
        self.check_directory()?;
        let path = self.path(worker);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(HeldLock { path, _file: file })
    }

    /// `true` if the lock of a worker that started this long ago is free, or its file is missing
    /// and the worker is not [young](UNKNOWN_FOR).
    pub(super) fn is_dead(&self, worker: WorkerId, age: Duration) -> io::Result<bool> {
        let opened = match self.check_directory() {
            Ok(()) => File::open(self.path(worker)),
            Err(error) => Err(error),
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(age >= UNKNOWN_FOR),
            Err(error) => return Err(error),
        };
        // A shared lock, so that two processes that check at once do not mistake each other for the
        // worker. Closing the file unlocks it.
        match file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the file of a worker, if it exists.
    pub(super) fn remove(&self, worker: WorkerId) -> io::Result<()> {
        ignore_missing(std::fs::remove_file(self.path(worker)))
    }

    /// Returns the directory, if it exists and is not refused.
    #[cfg(unix)]
    pub(super) fn checked_directory(&self) -> io::Result<&Path> {
        self.check_directory()?;
        Ok(&self.directory)
    }

    /// Returns the directory, if it is not refused. Creates it only if this user owns the database:
    /// a directory of another user would keep the workers of the owner from starting.
    #[cfg(unix)]
    pub(super) fn prepared_directory(&self) -> io::Result<&Path> {
        use std::os::unix::fs::MetadataExt;
        if std::fs::metadata(&self.database)?.uid() == rustix::process::geteuid().as_raw() {
            self.create_directory()?;
        }
        self.checked_directory()
    }

    fn path(&self, worker: WorkerId) -> PathBuf {
        self.directory.join(format!("{worker}.lock"))
    }

    /// Refuses a directory that another user may have prepared or may change.
    #[cfg(unix)]
    fn check_directory(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::symlink_metadata(&self.directory)?;
        let mode = found.mode() & 0o7777;
        let owner = found.uid();
        let is_ours = || owner == rustix::process::geteuid().as_raw();
        let is_of_database = || std::fs::metadata(&self.database).is_ok_and(|database| database.uid() == owner);
        if !found.is_dir() {
            Err(self.refused("it is not a directory of its own; move it away"))
        } else if !is_ours() && !is_of_database() {
            Err(self.refused(&format!("it belongs to user {owner}; move it away, or give it to the database's owner")))
        } else if mode & 0o022 != 0 {
            Err(self.refused(&format!("others than its owner may write to it (mode {mode:04o}); chmod 700 it")))
        } else {
            Ok(())
        }
    }

    #[cfg(not(unix))]
    fn check_directory(&self) -> io::Result<()> {
        let found = std::fs::symlink_metadata(&self.directory)?;
        if found.is_dir() { Ok(()) } else { Err(self.refused("it is not a directory of its own; move it away")) }
    }

    fn refused(&self, why: &str) -> io::Error {
        let text = format!("the directory of lock files {:?} is refused: {why}", self.directory);
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }

    fn create_directory(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

impl HeldLock {
    /// Removes the file, then frees the lock.
    pub(super) fn release(self) -> io::Result<()> {
        ignore_missing(std::fs::remove_file(&self.path))
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
