//! The kind `files`: files of a SQLite database are moved away or replaced under running processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Part, Report, Round, RoundOptions};
use crate::worker_process::WorkerProcess;

/// A process that has checked the files just before they changed writes its line when it gets the
/// processor, within this time.
const UNDER_WAY: Duration = Duration::from_millis(1500);

/// How long a worker may take to continue, once the file is back.
const RECOVERY: Duration = Duration::from_secs(60);

/// Texts that no log may contain. Errors are allowed: a worker logs that the file is gone.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "SQLITE_BUSY"];

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { workers: 2, at_once: 12, forbidden: FORBIDDEN, ..RoundOptions::default() };
    let mut round = Round::begin(part, "files", options).await;
    round.all_started().await;
    // A worker that cannot renew its leases loses them.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(100..800))).await;
        round.wait_for_a_body().await;
        let file = round.any_file();
        let (gone_at, back_at) = round.take_away(&file).await;
        round.report.faults += 1;
        round.report.delivered += usize::from(round.acknowledged_between(gone_at, back_at, &file));
        if !round.report.violations.is_empty() {
            // Writes may be lost that their runs need to end.
            return round.give_up();
        }
        if !round.all_continue(RECOVERY).await {
            round.violation("I-Live", format!("a worker had not continued {RECOVERY:?} after {file:?} was back"));
            break;
        }
        round.report.done += 1;
    }
    round.finish().await
}

impl Round {
    /// Returns the path of the database, its WAL or its shared memory.
    fn any_file(&mut self) -> PathBuf {
        let suffix = ["", "-wal", "-shm"][self.random.usize(0..3)];
        self.testbed.directory().join(format!("test.db{suffix}"))
    }

    /// Moves the file away for a while; sometimes a copy stands in its place. Returns when the path
    /// did not lead to it.
    async fn take_away(&mut self, file: &Path) -> (SystemTime, SystemTime) {
        let (away, copy) = (file.with_extension("away"), file.with_extension("copy"));
        let replaces = self.random.bool();
        if replaces {
            fs::copy(file, &copy).expect("copy a file of the database");
        }
        fs::rename(file, &away).expect("move a file of the database");
        if replaces {
            fs::rename(&copy, file).expect("put a copy in its place");
        }
        self.note(if replaces { "replaced" } else { "moved" }, 1);
        let gone_at = SystemTime::now();
        tokio::time::sleep(UNDER_WAY + Duration::from_millis(self.random.u64(200..2500))).await;
        let back_at = SystemTime::now();
        fs::rename(&away, file).expect("put the file back");
        (gone_at, back_at)
    }

    /// Reports what was acknowledged while a file was away. Returns whether something was
    /// acknowledged shortly before.
    fn acknowledged_between(&mut self, gone_at: SystemTime, back_at: SystemTime, file: &Path) -> bool {
        let micros = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let (from, until) = (micros(gone_at + UNDER_WAY), micros(back_at));
        self.ledger.read();
        let acknowledged = self.ledger.lines.iter().filter(|line| line.fact.is_acknowledgement());
        let late: Vec<_> = acknowledged.clone().filter(|line| (from..until).contains(&line.at)).cloned().collect();
        let just_before = micros(gone_at) - 1_000_000..micros(gone_at);
        let was_busy = acknowledged.clone().any(|line| just_before.contains(&line.at));
        for line in late {
            self.violation("I-Ack", format!("{line:?} was acknowledged while {file:?} was away"));
        }
        was_busy
    }
}
