//! The liveness lock of a worker: a lock of the operating system on a file beside the database. It
//! vanishes with the process, however the process ends.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use workflow_engine::model::WorkerId;

/// The directory of the lock files of one database.
#[derive(Clone, Debug)]
pub(super) struct LockFiles {
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
        Self { directory: directory.into() }
    }

    /// Locks the file of a worker and creates it if it is missing.
    pub(super) fn lock(&self, worker: WorkerId) -> io::Result<HeldLock> {
        self.create_directory()?;
        let path = self.path(worker);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(HeldLock { path, _file: file })
    }

    /// `true` if the lock of the worker is free. A missing file counts as a free lock.
    pub(super) fn is_free(&self, worker: WorkerId) -> io::Result<bool> {
        let file = match File::open(self.path(worker)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
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

    fn path(&self, worker: WorkerId) -> PathBuf {
        self.directory.join(format!("{worker}.lock"))
    }

    fn create_directory(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.directory)
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
