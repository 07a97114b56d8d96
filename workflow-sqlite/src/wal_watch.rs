//! Waits for a write to the WAL if the system reports writes: on Linux, by inotify. The report
//! comes before the commit is visible, and some file systems send none, so it only says when to
//! check. It opens no descriptor of the file, because closing one would release SQLite's own locks.

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::WalWatch;
#[cfg(target_os = "linux")]
pub(super) use linux::WalWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::future::pending;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use tokio::io::unix::AsyncFd;

    /// Room for some hundred events.
    const BUFFER: usize = 4096;

    /// Reports writes to one file until the file is removed.
    #[derive(Debug)]
    pub(in super::super) struct WalWatch(Option<AsyncFd<OwnedFd>>);

    impl WalWatch {
        /// Watches this file. If a limit of the system forbids it, the watch reports nothing.
        pub(in super::super) fn of(wal: &Path) -> Self {
            let watch = watch(wal).inspect_err(|error| {
                tracing::debug!(%error, wal = %wal.display(), "no word of writes to the WAL: it is looked at more often");
            });
            Self(watch.ok())
        }

        /// `true` if the watch reports writes.
        pub(in super::super) fn tells(&self) -> bool {
            self.0.is_some()
        }

        /// Returns after a write, including one before the call. Never returns if the watch reports
        /// nothing. A dropped wait loses no write.
        pub(in super::super) async fn written(&mut self) {
            let Some(inotify) = &self.0 else { return pending().await };
            let ready = inotify.readable().await;
            let is_there = ready.and_then(|mut ready| {
                let is_there = drain(inotify.get_ref())?;
                ready.clear_ready();
                Ok(is_there)
            });
            if !matches!(is_there, Ok(true)) {
                self.0 = None;
            }
        }
    }

    #[allow(
        deprecated,
        reason = "an `OwnedFd` is what `AsyncFd::new` is sound for, and its successor is unsafe to call"
    )]
    fn watch(wal: &Path) -> io::Result<AsyncFd<OwnedFd>> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&inotify, wal, WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF)?;
        AsyncFd::new(inotify)
    }

    /// Takes all events. Returns `true` if the file still exists.
    fn drain(inotify: &OwnedFd) -> io::Result<bool> {
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) if event.events().intersects(gone) => return Ok(false),
                Ok(_) => {}
                Err(Errno::WOULDBLOCK) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::time::Duration;

        use super::WalWatch;

        /// Longer than any event takes, because a file without a write is not waited for.
        const LIMIT: Duration = Duration::from_secs(20);

        #[tokio::test]
        async fn each_write_is_told_of_once_until_the_file_is_gone() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("test.db-wal");
            assert!(!WalWatch::of(&path).tells(), "there is no file");
            std::fs::write(&path, "one").unwrap();
            let mut watch = WalWatch::of(&path);
            assert!(watch.tells());
            assert!(futures::poll!(std::pin::pin!(watch.written())).is_pending(), "it was written before");
            for text in ["two", "three"] {
                std::fs::write(&path, text).unwrap();
                tokio::time::timeout(LIMIT, watch.written()).await.unwrap();
                assert!(futures::poll!(std::pin::pin!(watch.written())).is_pending());
            }
            std::fs::remove_file(&path).unwrap();
            tokio::time::timeout(LIMIT, watch.written()).await.unwrap();
            assert!(!watch.tells());
            assert!(futures::poll!(std::pin::pin!(watch.written())).is_pending());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::future::pending;
    use std::path::Path;

    /// A watch that reports nothing.
    #[derive(Debug)]
    pub(in super::super) struct WalWatch;

    impl WalWatch {
        pub(in super::super) fn of(_wal: &Path) -> Self {
            Self
        }

        pub(in super::super) fn tells(&self) -> bool {
            false
        }

        pub(in super::super) async fn written(&mut self) {
            pending().await
        }
    }
}
