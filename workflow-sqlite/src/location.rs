//! The place of a database: how its URL is read, and whether SQLite can keep its promises there.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use workflow_engine::store::{ConnectError, redact};

/// The place of a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    Memory,
    File(PathBuf),
}

/// Reads `sqlite://path`, `sqlite:path` and `sqlite::memory:`. The path is taken as it is written.
pub(super) fn parse(url: &str) -> Result<Location, ConnectError> {
    let refuse = |reason: &str| Err(ConnectError::InvalidUrl { url: redact(url), reason: reason.to_owned() });
    let Some(rest) = url.strip_prefix("sqlite:") else { return refuse("it does not begin with sqlite:") };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match path {
        ":memory:" => Ok(Location::Memory),
        "" => refuse("it names no file; write sqlite://path/to/file.db or sqlite::memory:"),
        _ if path.contains('?') => refuse("parameters are not accepted; what they would set is set by this crate"),
        _ if path.contains('\0') => refuse("the path holds a NUL"),
        _ => Ok(Location::File(PathBuf::from(path))),
    }
}

/// Creates the file if it is missing and returns its real path. Refuses a file that cannot be
/// written or locked.
pub(super) fn prepare(path: &Path, url: &str) -> Result<PathBuf, ConnectError> {
    check_filesystem(path)?;
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(ConnectError::NotAFile { path: path.display().to_string() });
    }
    create(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => check_writable(path, url),
        _ => Err(not_writable(path, error)),
    })?;
    // Two processes that open different links must find the same files beside the database.
    let path = path.canonicalize().map_err(|error| not_writable(path, error))?;
    check_owners(&path)?;
    warn_of_others(&path);
    Ok(path)
}

/// Refuses files that another user may have prepared: a database that every user may write, and
/// files beside a database that its owner shares with no group.
#[cfg(unix)]
fn check_owners(path: &Path) -> Result<(), ConnectError> {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    let foreign = |path: &Path, owner| Err(ConnectError::ForeignOwner { path: path.display().to_string(), owner });
    let database = std::fs::metadata(path).map_err(|error| not_writable(path, error))?;
    let owner = database.uid();
    if ![user, 0].contains(&owner) && user != 0 && database.mode() & 0o002 != 0 {
        return foreign(path, owner);
    }
    let is_shared = database.mode() & 0o022 != 0;
    for file in ["-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        match std::fs::symlink_metadata(&file) {
            Ok(found) if !is_shared && ![user, 0, owner].contains(&found.uid()) => return foreign(&file, found.uid()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owners(_: &Path) -> Result<(), ConnectError> {
    Ok(())
}

/// Returns the path of a file beside the database.
#[cfg(unix)]
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Warns if other users than the owner can read or replace the database: the file holds every
/// payload, and a user with write access to its directory can put another file in its place. The
/// modes are the operator's choice, for example a shared group, and are not changed.
fn warn_of_others(path: &Path) {
    for warning in open_to_others(path) {
        tracing::warn!(path = %path.display(), "{warning}");
    }
}

/// Describes what is open to other users than the owner.
#[cfg(unix)]
pub(super) fn open_to_others(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o7777);
    let mut warnings = Vec::new();
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        let bits = mode(&file);
        if bits & 0o077 != 0 {
            let file = file.display();
            warnings.push(format!(
                "others than its owner have rights on {file} (mode {bits:04o}); chmod 600 takes them away"
            ));
        }
    }
    if let Some(directory) = path.parent() {
        let bits = mode(directory);
        // With the sticky bit other users can add files, but can neither remove nor rename this
        // one.
        if bits & 0o022 != 0 && bits & 0o1000 == 0 {
            let directory = directory.display();
            warnings.push(format!(
                "others than its owner may replace files in {directory} (mode {bits:04o}); chmod 700 takes it away"
            ));
        }
    }
    warnings
}

#[cfg(not(unix))]
pub(super) fn open_to_others(_: &Path) -> Vec<String> {
    Vec::new()
}

/// Sets the mode of a new database. SQLite gives the same mode to the files beside it.
fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn check_writable(path: &Path, url: &str) -> Result<(), ConnectError> {
    let Err(error) = access(path, true) else { return Ok(()) };
    let read_only = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
        && access(path, false).is_ok();
    Err(if read_only { ConnectError::ReadOnly { url: redact(url) } } else { not_writable(path, error) })
}

/// Returns whether this process may read the file, and write it if `writes`. It does not open the
/// file: closing it would release the locks that SQLite holds for the connections of this process.
#[cfg(unix)]
fn access(path: &Path, writes: bool) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let wanted = if writes { Access::READ_OK | Access::WRITE_OK } else { Access::READ_OK };
    accessat(CWD, path, wanted, AtFlags::EACCESS)?;
    // The check lets root write to every file, even to one of the kernel that no program may write.
    let is_read_only = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path)?) & 0o222 == 0;
    if writes && is_read_only { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

#[cfg(not(unix))]
fn access(path: &Path, writes: bool) -> io::Result<()> {
    OpenOptions::new().read(true).write(writes).open(path).map(drop)
}

/// Returns the file system of the file, or of the directory in which it will be created.
#[cfg(target_os = "linux")]
fn check_filesystem(path: &Path) -> Result<(), ConnectError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = if path.exists() { path } else { parent };
    let facts = rustix::fs::statfs(place).map_err(|error| not_writable(path, error.into()))?;
    // The width of the type differs between architectures; every magic number has 32 bits.
    match network_filesystem((facts.f_type as u64 & 0xFFFF_FFFF) as u32) {
        Some(filesystem) => Err(ConnectError::NetworkFilesystem { path: path.display().to_string(), filesystem }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_filesystem(_: &Path) -> Result<(), ConnectError> {
    Ok(())
}

/// File systems by the numbers of statfs(2) on which WAL does not work, because their locks and
/// shared memory do not reach across hosts.
#[cfg(target_os = "linux")]
pub(super) fn network_filesystem(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0xFF53_4D42 => Some("CIFS"),
        0xFE53_4D42 => Some("SMB2"),
        0x517B => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE"),
        0x5346_414F | 0x6B41_4653 => Some("AFS"),
        0x7375_7245 => Some("CODA"),
        _ => None,
    }
}

/// Returns the error for a file that cannot be created or written.
pub(super) fn not_writable(path: &Path, source: io::Error) -> ConnectError {
    ConnectError::NotWritable { path: path.display().to_string(), source }
}
