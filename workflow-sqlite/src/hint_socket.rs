//! Hints between the processes that share a file: datagrams to sockets beside the lock files.
//!
//! Each listener has a socket. After a commit its process sends one byte to the sockets of all
//! other stores. A hint may be lost: the listeners find each commit by their checks, too.

#[cfg(not(unix))]
pub(super) use elsewhere::{HintSocket, HintSockets};
#[cfg(unix)]
pub(super) use unix::{HintSocket, HintSockets};

#[cfg(unix)]
mod unix {
    use std::fs::{self, DirEntry, File, Permissions};
    use std::future::pending;
    use std::io::{self, ErrorKind};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::UnixDatagram as SendingSocket;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::net::UnixDatagram;
    use uuid::Uuid;

    use super::super::lock_file::LockFiles;

    /// The end of the file name of a socket that can be sent to.
    const SUFFIX: &str = ".hint";

    /// The end of the file name of a socket that is not bound yet. A sender would take it for the
    /// socket of a dead process.
    const NEW_SUFFIX: &str = ".new";

    /// The most hints that are taken at once.
    const MOST_HINTS: usize = 64;

    /// A longer path may not fit into the address of a socket.
    const LONGEST_PATH: usize = 100;

    /// The sockets of all listeners on one database.
    #[derive(Debug)]
    pub(in super::super) struct HintSockets {
        files: LockFiles,
        /// The beginning of the file names of this store's own sockets.
        prefix: String,
        /// The number of sockets that this store has opened.
        opened: AtomicU64,
    }

    /// The socket of one listener.
    #[derive(Debug)]
    pub(in super::super) struct HintSocket(Option<Bound>);

    /// A bound socket. Its file is removed with it.
    #[derive(Debug)]
    struct Bound {
        socket: UnixDatagram,
        path: PathBuf,
    }

    /// A path that fits into the address of a socket.
    #[derive(Debug)]
    struct Address {
        path: PathBuf,
        /// Stays open while the path leads through its descriptor.
        _directory: Option<File>,
    }

    impl HintSockets {
        /// Returns the sockets for the database in this file. Opens none.
        pub(in super::super) fn of(database: &Path) -> Self {
            let (_, random) = Uuid::new_v4().as_u64_pair();
            let prefix = format!("{random:016x}-");
            Self { files: LockFiles::of(database), prefix, opened: AtomicU64::new(0) }
        }

        /// Sends a hint to the listeners of all other stores. Never waits for one: a socket that is
        /// full has hints enough. Removes the files of sockets whose process has ended.
        ///
        /// # Errors
        /// The directory cannot be read, or another user may have prepared it.
        pub(in super::super) fn notify(&self) -> io::Result<()> {
            let directory = match self.files.checked_directory() {
                // Nothing listens, and no worker has run yet.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                checked => checked?,
            };
            let socket = SendingSocket::unbound()?;
            socket.set_nonblocking(true)?;
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                if self.is_of_another_store(&entry) {
                    send(&socket, &entry.path());
                }
            }
            Ok(())
        }

        /// Opens a socket for a listener of this store. Without one, the listener relies on its
        /// checks.
        pub(in super::super) fn open(&self) -> HintSocket {
            let bound = self.bind().inspect_err(|error| {
                tracing::debug!(%error, "no socket for hints: commits of other processes are found by checks");
            });
            HintSocket(bound.ok())
        }

        fn bind(&self) -> io::Result<Bound> {
            let directory = self.files.prepared_directory()?;
            let number = self.opened.fetch_add(1, Ordering::Relaxed);
            let named = |suffix: &str| directory.join(format!("{}{number}{suffix}", self.prefix));
            let (new, path) = (named(NEW_SUFFIX), named(SUFFIX));
            let socket = UnixDatagram::bind(&Address::of(&new)?.path)?;
            let mut bound = Bound { socket, path: new };
            fs::set_permissions(&bound.path, Permissions::from_mode(0o600))?;
            fs::rename(&bound.path, &path)?;
            bound.path = path;
            Ok(bound)
        }

        fn is_of_another_store(&self, entry: &DirEntry) -> bool {
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            stem.is_some_and(|stem| !stem.starts_with(&self.prefix))
                // A link would lead to a socket that is not ours.
                && entry.file_type().is_ok_and(|file_type| file_type.is_socket())
        }
    }

    impl HintSocket {
        /// Returns after a hint, including one before the call. Never returns if there is no
        /// socket. A dropped wait loses no hint.
        pub(in super::super) async fn received(&mut self) {
            loop {
                let Some(bound) = &self.0 else { return pending().await };
                match bound.take_hints().await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(_) => self.0 = None,
                }
            }
        }
    }

    impl Bound {
        /// Waits until there may be hints, and takes them. Returns `true` if there were any.
        async fn take_hints(&self) -> io::Result<bool> {
            self.socket.readable().await?;
            for taken in 0..MOST_HINTS {
                match self.socket.try_recv(&mut [0]) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken > 0),
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        }
    }

    impl Drop for Bound {
        fn drop(&mut self) {
            // An error means that a sender has removed it, or that it stays until one does.
            let _ = fs::remove_file(&self.path);
        }
    }

    impl Address {
        fn of(path: &Path) -> io::Result<Self> {
            let is_long = cfg!(target_os = "linux") && path.as_os_str().len() > LONGEST_PATH;
            let parts = path.parent().zip(path.file_name()).filter(|_| is_long);
            let Some((directory, name)) = parts else {
                return Ok(Self { path: path.to_owned(), _directory: None });
            };
            let directory = File::open(directory)?;
            let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
            Ok(Self { path, _directory: Some(directory) })
        }
    }

    fn send(socket: &SendingSocket, path: &Path) {
        let sent = Address::of(path).and_then(|address| socket.send_to(&[0], &address.path));
        if sent.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // An error means that another process has removed it.
            let _ = fs::remove_file(path);
        }
    }

    #[cfg(test)]
    mod tests {
        use std::time::Duration;

        use tempfile::TempDir;

        use super::*;

        /// Longer than any hint takes.
        const LIMIT: Duration = Duration::from_secs(20);

        /// A database that is only a file, and the directory beside it.
        struct Place {
            directory: TempDir,
            database: PathBuf,
        }

        impl Place {
            fn new() -> Self {
                let directory = tempfile::tempdir().unwrap();
                let database = directory.path().join("runs.db");
                fs::write(&database, "").unwrap();
                Self { directory, database }
            }

            fn sockets(&self) -> HintSockets {
                HintSockets::of(&self.database)
            }

            fn beside(&self) -> PathBuf {
                self.directory.path().join("runs.db-workers")
            }

            fn files(&self) -> Vec<PathBuf> {
                fs::read_dir(self.beside()).unwrap().map(|entry| entry.unwrap().path()).collect()
            }
        }

        async fn arrives(socket: &mut HintSocket) {
            tokio::time::timeout(LIMIT, socket.received()).await.unwrap();
        }

        #[tokio::test]
        async fn a_hint_reaches_every_listener_of_other_stores() {
            let place = Place::new();
            let (one, two, three) = (place.sockets(), place.sockets(), place.sockets());
            three.notify().unwrap();
            let mut listeners = [one.open(), one.open(), two.open()];
            for _ in 0..3 {
                three.notify().unwrap();
                for listener in &mut listeners {
                    arrives(listener).await;
                }
            }
            let entries = || fs::read_dir(place.beside()).unwrap().map(Result::unwrap);
            assert_eq!(entries().filter(|entry| one.is_of_another_store(entry)).count(), 1, "not its own");
            assert_eq!(entries().filter(|entry| three.is_of_another_store(entry)).count(), 3);
        }

        #[tokio::test]
        async fn hints_that_are_not_taken_make_no_sender_wait() {
            let place = Place::new();
            let (one, two) = (place.sockets(), place.sockets());
            let mut listener = one.open();
            for _ in 0..2_000 {
                two.notify().unwrap();
            }
            arrives(&mut listener).await;
            drop(listener);
            assert_eq!(place.files(), Vec::<PathBuf>::new(), "the file goes with its socket");
        }

        #[tokio::test]
        async fn the_socket_of_a_dead_process_is_removed_and_no_other_file() {
            let place = Place::new();
            let (one, two) = (place.sockets(), place.sockets());
            let mut listener = one.open();
            let dead = place.beside().join("0123456789abcdef-0.hint");
            // The end of a process closes its sockets; their files stay.
            drop(SendingSocket::bind(&dead).unwrap());
            let elsewhere = place.directory.path().join("elsewhere.hint");
            drop(SendingSocket::bind(&elsewhere).unwrap());
            let (link, text) = (place.beside().join("link.hint"), place.beside().join("text.hint"));
            std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
            fs::write(&text, "").unwrap();
            two.notify().unwrap();
            arrives(&mut listener).await;
            assert!(!dead.exists());
            assert!(text.exists() && elsewhere.exists() && link.is_symlink());
        }

        #[tokio::test]
        async fn sockets_are_for_this_user_only() {
            let place = Place::new();
            let _listener = place.sockets().open();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&place.beside()), 0o700);
            assert_eq!(place.files().iter().map(|file| mode(file)).collect::<Vec<_>>(), [0o600]);
        }

        #[tokio::test]
        async fn a_directory_that_others_may_have_prepared_gets_no_hints() {
            let place = Place::new();
            let (one, two) = (place.sockets(), place.sockets());
            let mut listener = one.open();
            for mode in [0o770, 0o707] {
                fs::set_permissions(place.beside(), Permissions::from_mode(mode)).unwrap();
                assert_eq!(two.notify().unwrap_err().kind(), ErrorKind::PermissionDenied);
                assert!(two.open().0.is_none());
            }
            fs::set_permissions(place.beside(), Permissions::from_mode(0o700)).unwrap();
            two.notify().unwrap();
            arrives(&mut listener).await;
            assert_eq!(place.files().len(), 1);
        }

        #[tokio::test]
        async fn only_the_owner_of_the_database_creates_the_directory() {
            let place = Place::new();
            // Only root can give a file away.
            if std::os::unix::fs::chown(&place.database, Some(12_345), None).is_err() {
                return;
            }
            assert!(place.sockets().open().0.is_none());
            assert!(!place.beside().exists());
            place.sockets().notify().unwrap();
        }

        #[cfg(target_os = "linux")]
        #[tokio::test]
        async fn a_path_that_is_too_long_for_an_address_is_shortened() {
            let mut place = Place::new();
            let deep = place.directory.path().join("d".repeat(100)).join("e".repeat(100));
            fs::create_dir_all(&deep).unwrap();
            place.database = deep.join("runs.db");
            fs::write(&place.database, "").unwrap();
            let mut listener = place.sockets().open();
            place.sockets().notify().unwrap();
            arrives(&mut listener).await;
            drop(listener);
            assert_eq!(fs::read_dir(deep.join("runs.db-workers")).unwrap().count(), 0);
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::future::pending;
    use std::io;
    use std::path::Path;

    /// No sockets: listeners rely on their checks.
    #[derive(Debug)]
    pub(in super::super) struct HintSockets;

    /// A socket at which no hint arrives.
    #[derive(Debug)]
    pub(in super::super) struct HintSocket;

    impl HintSockets {
        pub(in super::super) fn of(_database: &Path) -> Self {
            Self
        }

        pub(in super::super) fn notify(&self) -> io::Result<()> {
            Ok(())
        }

        pub(in super::super) fn open(&self) -> HintSocket {
            HintSocket
        }
    }

    impl HintSocket {
        pub(in super::super) async fn received(&mut self) {
            pending().await
        }
    }
}
