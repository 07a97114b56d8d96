//! One directory, and paths that cannot leave it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use workflow_flows::{ErrorClass, ToolError};

use crate::arguments::{failed, invalid};

/// The directory that all paths start from. It is opened once, so a later change of its own path
/// has no effect.
pub(crate) struct Root {
    directory: OwnedFd,
}

/// An entry of a directory.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) stat: Stat,
}

/// The most entries of a list or of a deletion.
const ENTRIES: usize = 10_000;
/// The deepest directory below the one that is listed or deleted.
const DEPTH: usize = 32;

/// How the kernel walks a path: it never leaves the root, and follows no link.
fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Refuses a kernel without such a walk now, and not at the first call.
        openat2(&directory, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), beneath())?;
        Ok(Self { directory })
    }

    fn walk(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, ToolError> {
        openat2(&self.directory, path, flags | OFlags::CLOEXEC, mode, beneath()).map_err(|error| refused(path, error))
    }

    /// The directory of a path, and the name in it.
    fn parent<'a>(&self, path: &'a str, create: bool) -> Result<(OwnedFd, &'a str), ToolError> {
        check(path)?;
        let (folder, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((".", path.trim_end_matches('/')));
        if matches!(name, "" | ".") {
            return Err(invalid(format!("fs: the path {path:?} names no file below the root")));
        }
        if create {
            self.create(folder)?;
        }
        let directory = self.walk(folder, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
        Ok((directory, name))
    }

    /// Creates a directory and those above it.
    fn create(&self, path: &str) -> Result<(), ToolError> {
        let mut directory = self.walk(".", OFlags::DIRECTORY | OFlags::PATH, Mode::empty())?;
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            match mkdirat(&directory, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused(path, error)),
            }
            let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
            directory =
                openat2(&directory, part, flags, Mode::empty(), beneath()).map_err(|error| refused(path, error))?;
        }
        Ok(())
    }

    /// Creates a directory and those above it, unless it is there.
    pub(super) fn make_directory(&self, path: &str) -> Result<(), ToolError> {
        check(path)?;
        self.create(path)
    }

    /// Opens a directory, to be entered.
    #[cfg(feature = "shell")]
    pub(crate) fn folder(&self, path: &str) -> Result<OwnedFd, ToolError> {
        check(path)?;
        self.walk(path, OFlags::DIRECTORY | OFlags::PATH, Mode::empty())
    }

    pub(super) fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ToolError> {
        check(path)?;
        // Without NONBLOCK a pipe waits for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = regular(path, self.walk(path, flags, Mode::empty())?)?;
        let mut content = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(|error| broken(path, &error))?;
        if content.len() as u64 > limit {
            return Err(invalid(format!("fs: {path:?} is larger than {limit} bytes, the limit")));
        }
        Ok(content)
    }

    /// Replaces a file in one step, so a reader sees the old content or the new one.
    pub(super) fn write(&self, path: &str, content: &[u8], mode: u32, create_dirs: bool) -> Result<(), ToolError> {
        let (directory, name) = self.parent(path, create_dirs)?;
        if statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile)
        {
            return Err(invalid(format!("fs: {path:?} exists and is not a regular file")));
        }
        let temporary = format!(".{}.part", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat2(&directory, temporary.as_str(), flags, Mode::from_raw_mode(mode & 0o777), beneath());
        let mut file = File::from(file.map_err(|error| refused(path, error))?);
        let written = file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| broken(path, &error));
        let moved = written.and_then(|()| {
            renameat(&directory, temporary.as_str(), &directory, name).map_err(|error| refused(path, error))
        });
        if moved.is_err() {
            // The error that is returned is the first one.
            let _ = unlinkat(&directory, temporary.as_str(), AtFlags::empty());
        }
        moved
    }

    /// Appends to a file, or creates it. Returns its size.
    pub(super) fn append(&self, path: &str, content: &[u8]) -> Result<u64, ToolError> {
        let (directory, name) = self.parent(path, false)?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat2(&directory, name, flags, Mode::from_raw_mode(0o644), beneath());
        let mut file = regular(path, file.map_err(|error| refused(path, error))?)?;
        file.write_all(content).map_err(|error| broken(path, &error))?;
        Ok(file.metadata().map_err(|error| broken(path, &error))?.len())
    }

    pub(super) fn stat(&self, path: &str) -> Result<Stat, ToolError> {
        check(path)?;
        let found = self.walk(path, OFlags::PATH, Mode::empty())?;
        fstat(&found).map_err(|error| refused(path, error))
    }

    /// Returns the entries of a directory, sorted by path. Links are entries, and not followed.
    pub(super) fn list(&self, path: &str, recursive: bool) -> Result<Vec<Entry>, ToolError> {
        check(path)?;
        let directory = self.walk(path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
        let mut entries = Vec::new();
        collect(directory.as_fd(), path.trim_end_matches('/'), recursive, 0, &mut entries)?;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// Deletes a file, a link or a directory.
    pub(super) fn delete(&self, path: &str, recursive: bool) -> Result<(), ToolError> {
        let (directory, name) = self.parent(path, false)?;
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| refused(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return unlinkat(&directory, name, AtFlags::empty()).map_err(|error| refused(path, error));
        }
        if recursive {
            let mut entries = Vec::new();
            let folder = self.walk(path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
            collect(folder.as_fd(), "", true, 0, &mut entries)?;
            // In reverse order a directory comes after its entries.
            entries.sort_by(|a, b| b.path.cmp(&a.path));
            for entry in entries {
                let is_directory = FileType::from_raw_mode(entry.stat.st_mode) == FileType::Directory;
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                let (above, name) = entry.path.rsplit_once('/').unwrap_or((".", &entry.path));
                let walk = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
                openat2(&folder, above, walk, Mode::empty(), beneath())
                    .and_then(|above| unlinkat(above, name, flags))
                    .map_err(|error| refused(path, error))?;
            }
        }
        unlinkat(&directory, name, AtFlags::REMOVEDIR).map_err(|error| refused(path, error))
    }

    /// Moves a file or directory. A file at the new path is replaced.
    pub(super) fn rename(&self, from: &str, to: &str, create_dirs: bool) -> Result<(), ToolError> {
        let (from_directory, from_name) = self.parent(from, false)?;
        let (to_directory, to_name) = self.parent(to, create_dirs)?;
        renameat(from_directory, from_name, to_directory, to_name).map_err(|error| refused(from, error))
    }
}

/// Takes an open file if it is a regular one: a pipe would wait, and a device can have effects.
fn regular(path: &str, file: OwnedFd) -> Result<File, ToolError> {
    let stat = fstat(&file).map_err(|error| refused(path, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        FileType::Directory => Err(invalid(format!("fs: {path:?} is a directory"))),
        _ => Err(invalid(format!("fs: {path:?} is not a regular file"))),
    }
}

fn collect(
    directory: BorrowedFd<'_>,
    path: &str,
    recursive: bool,
    depth: usize,
    entries: &mut Vec<Entry>,
) -> Result<(), ToolError> {
    if depth > DEPTH {
        return Err(invalid(format!("fs: {path:?} is more than {DEPTH} directories deep")));
    }
    for entry in Dir::read_from(directory).map_err(|error| refused(path, error))? {
        let entry = entry.map_err(|error| refused(path, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if matches!(name.as_str(), "." | "..") {
            continue;
        }
        if entries.len() >= ENTRIES {
            return Err(invalid(format!("fs: {path:?} has more than {ENTRIES} entries")));
        }
        // An entry may be gone by now.
        let Ok(stat) = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let below = if matches!(path, "" | ".") { name.clone() } else { format!("{path}/{name}") };
        if recursive && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let inner = openat2(directory, entry.file_name(), flags, Mode::empty(), beneath());
            let inner = inner.map_err(|error| refused(&below, error))?;
            collect(inner.as_fd(), &below, true, depth + 1, entries)?;
        }
        entries.push(Entry { name, path: below, stat });
    }
    Ok(())
}

/// Refuses paths that the kernel would refuse too, with a clearer text.
fn check(path: &str) -> Result<(), ToolError> {
    if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..") || path.contains('\0') {
        return Err(invalid(format!("fs: the path {path:?} is not below the root: write a relative path without ..")));
    }
    Ok(())
}

fn refused(path: &str, error: Errno) -> ToolError {
    match error {
        Errno::NOENT => invalid(format!("fs: {path:?} does not exist")),
        Errno::LOOP | Errno::XDEV => invalid(format!("fs: {path:?} leads over a link or out of the root")),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => invalid(format!("fs: {path:?} may not be used: {error}")),
        Errno::NOTEMPTY => invalid(format!("fs: {path:?} is not empty: set recursive")),
        Errno::NOSPC | Errno::DQUOT => ToolError::new(ErrorClass::Unavailable, format!("fs: {path:?}: {error}")),
        Errno::NOTDIR | Errno::ISDIR | Errno::EXIST | Errno::NAMETOOLONG | Errno::INVAL => {
            invalid(format!("fs: {path:?}: {error}"))
        }
        _ => failed(format!("fs: {path:?}: {error}")),
    }
}

fn broken(path: &str, error: &io::Error) -> ToolError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(error) => refused(path, error),
        None => failed(format!("fs: {path:?}: {error}")),
    }
}
