//! When it is worth asking SQLite whether others have committed: a question is a round through the driver's thread, a `stat` of
//! the WAL is one call.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::wal_watch::WalWatch;

/// So long after the file changed SQLite is asked at every look. A commit is seen by others only after its frames were
/// written and are on disk; and the time of the file moves by the ticks of the kernel, 10 ms at most on Linux, so what is
/// written in the tick of an earlier write does not show.
const SETTLING: Duration = Duration::from_millis(50);

/// SQLite is asked this often whatever the file says: there are disks slower than [`SETTLING`], and file systems that keep
/// times to the second, or late.
const ANYWAY: Duration = Duration::from_millis(100);

/// From one look to the next while others are at work. Half of it is what a commit waits on average to be heard of.
const BUSY_LOOK: Duration = Duration::from_millis(3);

/// From one look to the next after [`RESTFUL`], where the system does not tell of writes. A look wakes the runtime, which takes 30 to
/// 80 us of a core (`workflow-bench idle`): up to 0.8 % of it. To ask SQLite takes 150 us.
const IDLE_LOOK: Duration = Duration::from_millis(10);

/// So long without a change, nobody is at work.
const RESTFUL: Duration = Duration::from_secs(1);

/// The WAL beside a database, as others leave it.
#[derive(Debug)]
pub(super) struct WalFile {
    path: PathBuf,
    seen: Trace,
    /// When `seen` was new.
    changed: Instant,
    /// When SQLite last answered to a question that was asked then.
    asked: Instant,
    /// There is one only at rest: it costs every write to the file a little, whoever writes.
    watch: Option<WalWatch>,
}

/// What a write leaves: time and length. `None`: there is no such file. A WAL that begins anew may keep its length, one
/// that is removed and made again may have any.
type Trace = Option<(SystemTime, u64)>;

impl WalFile {
    /// The WAL of this database, taken for changed now.
    pub(super) fn of(database: &Path, now: Instant) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let path = PathBuf::from(path);
        let seen = trace(&path);
        Self { path, seen, changed: now, asked: now, watch: None }
    }

    /// Whether SQLite is to be asked. It blocks for the microsecond that a `stat` of a local file takes: WAL needs a local file.
    ///
    /// Never by a descriptor: one that is closed takes SQLite's own locks on the same file with it.
    pub(super) fn is_to_be_asked(&mut self, now: Instant) -> bool {
        let trace = trace(&self.path);
        self.decide(trace, now)
    }

    /// SQLite answered to a question asked at this time.
    pub(super) fn answered(&mut self, asked: Instant) {
        self.asked = asked;
    }

    /// When the look after one at this time is due.
    pub(super) fn next_look(&self, now: Instant) -> Instant {
        now + match self.is_at_rest(now) {
            false => BUSY_LOOK,
            true if self.watch.as_ref().is_some_and(WalWatch::tells) => ANYWAY,
            true => IDLE_LOOK,
        }
    }

    /// Waits for the time of the next look; at rest no longer than for the next write. While others are at work every commit would
    /// be a wake, where a look now and then is enough.
    pub(super) async fn wait(&mut self, next_look: Instant) {
        if !self.is_at_rest(Instant::now()) {
            return tokio::time::sleep_until(next_look.into()).await;
        }
        let Some(watch) = &mut self.watch else {
            self.watch = Some(WalWatch::of(&self.path));
            // What was written before it is not told of: a look comes first.
            return;
        };
        tokio::select! {
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

/// What cannot be read counts as missing: SQLite is then asked anyway, and says what is wrong.
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

    /// One whose last change is settled, as of the time that is given back; SQLite has just answered.
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
        // What was written before the watch was there shows in a look.
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
        assert!(futures::poll!(std::pin::pin!(file.wait(far))).is_pending(), "looks are enough now");
        assert!(file.watch.is_none(), "and nobody watches");
    }

    #[test]
    fn silence_asks_now_and_then() {
        let (mut file, now) = settled(at(1, 100));
        assert!(!file.decide(at(1, 100), now + ANYWAY - TICK));
        assert!(file.decide(at(1, 100), now + ANYWAY));
        // Whoever asked and dropped the wait for the answer asks again.
        assert!(file.decide(at(1, 100), now + ANYWAY));
        file.answered(now + ANYWAY);
        assert!(!file.decide(at(1, 100), now + ANYWAY + TICK));
    }
}
