//! Decides when it is worth asking SQLite for commits of other processes: a question is a round
//! trip through the driver's thread, a `stat` of the WAL is one call.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::wal_watch::WalWatch;

/// For this time after a change of the file, every check asks SQLite. A commit becomes visible only
/// after its frames are on disk. And the time of the file moves by ticks of the kernel, at most 10
/// ms on Linux, so a second write in one tick does not show.
const SETTLING: Duration = Duration::from_millis(50);

/// SQLite is asked this often even if the file does not change: some disks are slower than
/// [`SETTLING`], and some file systems keep times to the second, or late.
const ANYWAY: Duration = Duration::from_millis(100);

/// The interval of checks while other processes are at work. On average a commit waits half of it
/// before it is noticed.
const BUSY_LOOK: Duration = Duration::from_millis(3);

/// The interval of checks after [`RESTFUL`], if the system does not report writes. Each check wakes
/// the runtime.
const IDLE_LOOK: Duration = Duration::from_millis(10);

/// After this time without a change the other processes count as idle.
const RESTFUL: Duration = Duration::from_secs(1);

/// The WAL beside a database, as other processes change it.
#[derive(Debug)]
pub(super) struct WalFile {
    path: PathBuf,
    seen: Trace,
    /// When `seen` last changed.
    changed: Instant,
    /// The time of the last question that SQLite answered.
    asked: Instant,
    /// Exists only at rest, because a watch makes every write to the file slower.
    watch: Option<WalWatch>,
}

/// The traces of a write: time and length. `None` if the file does not exist. A WAL that begins
/// anew may keep its length, and one that is removed and created again may have any length.
type Trace = Option<(SystemTime, u64)>;

impl WalFile {
    /// Returns the WAL of this database, which counts as changed now.
    pub(super) fn of(database: &Path, now: Instant) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let path = PathBuf::from(path);
        let seen = trace(&path);
        Self { path, seen, changed: now, asked: now, watch: None }
    }

    /// `true` if SQLite should be asked. Blocks for the `stat` of a local file; WAL needs a local
    /// file.
    ///
    /// It never opens the file: closing a descriptor would release SQLite's own locks on the file.
    pub(super) fn is_to_be_asked(&mut self, now: Instant) -> bool {
        let trace = trace(&self.path);
        self.decide(trace, now)
    }

    /// Notes that SQLite answered a question that was asked at this time.
    pub(super) fn answered(&mut self, asked: Instant) {
        self.asked = asked;
    }

    /// Returns the time of the check after one at this time.
    pub(super) fn next_look(&self, now: Instant) -> Instant {
        now + match self.is_at_rest(now) {
            false => BUSY_LOOK,
            true if self.watch.as_ref().is_some_and(WalWatch::tells) => ANYWAY,
            true => IDLE_LOOK,
        }
    }

    /// Waits for the time of the next check; at rest at most until the next write. While other
    /// processes are at work, a check now and then is enough, and each commit would be a wake-up.
    pub(super) async fn wait(&mut self, next_look: Instant) {
        if !self.is_at_rest(Instant::now()) {
            return tokio::time::sleep_until(next_look.into()).await;
        }
        let Some(watch) = &mut self.watch else {
            self.watch = Some(WalWatch::of(&self.path));
            // The watch does not report earlier writes, so a check comes first.
            return;
        };
        tokio::select! {
            biased;
            () = watch.written() => {}
            () = tokio::time::sleep_until(next_look.into()) => {}
        }
    }

    fn is_at_rest(&self, now: Instant) -> bool {
        now.duration_since(self.changed) >= RESTFUL
    }

    fn decide(&mut self, trace: Trace, now: Instant) -> bool {
        if trace != self.seen {
            self.seen = trace;
            self.changed = now;
            self.watch = None;
        }
        now.duration_since(self.changed) <= SETTLING || now.duration_since(self.asked) >= ANYWAY
    }
}

/// Reads the traces. A file that cannot be read counts as missing: SQLite is then asked anyway and
/// reports the error.
fn trace(path: &Path) -> Trace {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(1);

    fn at(seconds: u64, length: u64) -> Trace {
        Some((SystemTime::UNIX_EPOCH + Duration::from_secs(seconds), length))
    }

    /// Returns a WAL whose last change is old, as of the returned time; SQLite has just answered.
    fn settled(trace: Trace) -> (WalFile, Instant) {
        let begun = Instant::now();
        let mut file = WalFile { path: PathBuf::new(), seen: trace, changed: begun, asked: begun, watch: None };
        let now = begun + SETTLING + TICK;
        file.answered(now);
        (file, now)
    }

    #[test]
    fn every_kind_of_change_asks() {
        for (before, after) in [
            (at(1, 100), at(2, 100)),
            (at(1, 100), at(1, 200)),
            (at(1, 100), at(1, 0)),
            (at(1, 100), None),
            (None, at(1, 0)),
            (at(2, 100), at(1, 100)),
        ] {
            let (mut file, now) = settled(before);
            assert!(!file.decide(before, now), "{before:?}");
            assert!(file.decide(after, now), "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn a_change_asks_until_it_has_settled() {
        let (mut file, now) = settled(at(1, 100));
        assert!(file.decide(at(2, 100), now));
        file.answered(now);
        assert!(file.decide(at(2, 100), now + SETTLING));
        file.answered(now + SETTLING);
        assert!(!file.decide(at(2, 100), now + SETTLING + TICK));
    }

    #[test]
    fn looks_become_rare_after_a_rest_and_frequent_with_a_change() {
        let (mut file, now) = settled(at(1, 100));
        assert_eq!(file.next_look(now), now + BUSY_LOOK);
        let now = now + RESTFUL;
        assert_eq!(file.next_look(now), now + IDLE_LOOK);
        file.decide(at(2, 100), now);
        assert_eq!(file.next_look(now), now + BUSY_LOOK);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_write_ends_a_rest_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let wal = directory.path().join("test.db-wal");
        fs::write(&wal, "one").unwrap();
        let begun = Instant::now();
        let mut file = WalFile::of(&directory.path().join("test.db"), begun.checked_sub(RESTFUL).unwrap());
        let far = begun + Duration::from_secs(600);
        let limit = Duration::from_secs(20);
        // A check shows writes from before the watch.
        fs::write(&wal, "one more").unwrap();
        tokio::time::timeout(limit, file.wait(far)).await.unwrap();
        assert!(file.is_to_be_asked(begun));

        file.changed = begun.checked_sub(RESTFUL).unwrap();
        tokio::time::timeout(limit, file.wait(far)).await.unwrap();
        assert_eq!(file.next_look(begun), begun + ANYWAY);
        assert!(futures::poll!(std::pin::pin!(file.wait(far))).is_pending());
        fs::write(&wal, "two").unwrap();
        tokio::time::timeout(limit, file.wait(far)).await.unwrap();
        let now = Instant::now();
        assert!(file.is_to_be_asked(now));
        assert_eq!(file.next_look(now), now + BUSY_LOOK);
        fs::write(&wal, "three").unwrap();
        assert!(futures::poll!(std::pin::pin!(file.wait(far))).is_pending(), "checks at intervals are enough now");
        assert!(file.watch.is_none(), "a busy file is not watched");
    }

    #[test]
    fn silence_asks_now_and_then() {
        let (mut file, now) = settled(at(1, 100));
        assert!(!file.decide(at(1, 100), now + ANYWAY - TICK));
        assert!(file.decide(at(1, 100), now + ANYWAY));
        // A caller that dropped its wait for the answer asks again.
        assert!(file.decide(at(1, 100), now + ANYWAY));
        file.answered(now + ANYWAY);
        assert!(!file.decide(at(1, 100), now + ANYWAY + TICK));
    }
}
