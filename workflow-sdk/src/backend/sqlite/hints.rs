//! Hints from other processes: SQLite has no messages, but it counts the commits of others.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::backend::{BackendError, Hints};

use super::database::Database;
use super::error::{During, within_deadline};
use super::sql;
use super::wal_file::WalFile;
use super::writer::Seen;

const OPERATION: &str = "look for changes of other processes";

/// Between two hints that may be of this process's own making: 50 a second cost it little, and others wait for no more.
const OWN_PAUSE: Duration = Duration::from_millis(20);

/// Looks at the WAL and, when that has changed, at the data version from a connection of its own. The version counts the commits of
/// every other connection, those of this process's writer too; so while the writer is busy, it is the writer that looks.
#[derive(Debug)]
struct DataVersion {
    database: Arc<Database>,
    connection: SqliteConnection,
    wal: WalFile,
    seen: i64,
    writer: WriterSeen,
    /// No hint that may be of this process's own making comes before this.
    own_pause: Instant,
    /// There was a change, which may be of this process's own making.
    put_off: bool,
    /// When the next look is due: a wait that is dropped and begun again does not put it off.
    next_look: Instant,
}

/// What the writer had done and seen when it was last asked.
#[derive(Debug)]
struct WriterSeen {
    commits: u64,
    unannounced: u64,
    looks: u64,
    others: u64,
}

/// Who has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    MayBeOwn,
    OfOthers,
}

/// A database in memory: there is no other process.
#[derive(Debug)]
struct Never;

/// See [`Backend::listen`](crate::backend::Backend::listen).
pub(super) async fn listen(database: &Arc<Database>) -> Result<Box<dyn Hints>, BackendError> {
    database.check_open(OPERATION)?;
    let Some(file) = &database.file else { return Ok(Box::new(Never)) };
    let mut connection = file.open_connection(OPERATION).await?;
    let now = Instant::now();
    // Before the version: what is committed between the two shows in the file.
    let wal = WalFile::of(&file.path, now);
    let seen = read(&mut connection).await?;
    Ok(Box::new(DataVersion::new(database, connection, wal, seen, now)))
}

impl WriterSeen {
    fn of(writer: &Seen) -> Self {
        // The looks first: what a look saw is counted before the look is.
        let looks = writer.looks();
        Self { looks, others: writer.others(), unannounced: writer.unannounced(), commits: writer.commits() }
    }
}

impl DataVersion {
    fn new(database: &Arc<Database>, connection: SqliteConnection, wal: WalFile, seen: i64, now: Instant) -> Self {
        let writer = WriterSeen::of(database.writer.seen());
        let database = Arc::clone(database);
        Self { database, connection, wal, seen, writer, own_pause: now, put_off: false, next_look: now }
    }

    /// Who has committed, as the writer has seen it since it was last asked. `None`: it has not looked. What is committed after its
    /// last look is seen by its next, or by SQLite's answer when the writer rests.
    fn ask_writer(&mut self) -> Option<Change> {
        let WriterSeen { looks, others, .. } = WriterSeen::of(self.database.writer.seen());
        if looks == self.writer.looks {
            return None;
        }
        // Had it been of others, the writer would have seen it.
        self.put_off = false;
        let none = others == self.writer.others;
        (self.writer.looks, self.writer.others) = (looks, others);
        Some(if none { Change::None } else { Change::OfOthers })
    }

    /// Asks SQLite who has committed since it was last asked. What the writer sees until then tells nothing of what was found.
    async fn ask(&mut self, now: Instant) -> Result<Change, BackendError> {
        let version = within_deadline(OPERATION, read(&mut self.connection)).await?;
        self.wal.answered(now);
        let WriterSeen { looks, commits, .. } = WriterSeen::of(self.database.writer.seen());
        self.writer.looks = looks;
        let may_be_own = std::mem::replace(&mut self.writer.commits, commits) != commits;
        Ok(match (std::mem::replace(&mut self.seen, version) != version, may_be_own) {
            (false, _) => Change::None,
            (true, true) => Change::MayBeOwn,
            (true, false) => Change::OfOthers,
        })
    }

    /// Whether it is time to say that somebody has committed. A process that writes now and then would hint at itself each time; but
    /// what no executor announces is to be said here too.
    fn is_hint(&mut self, change: Change, now: Instant) -> bool {
        if change == Change::OfOthers {
            return true;
        }
        let unannounced = self.database.writer.seen().unannounced();
        self.put_off |= change == Change::MayBeOwn;
        let is_hint = (self.put_off || self.writer.unannounced != unannounced) && now >= self.own_pause;
        if is_hint {
            (self.put_off, self.writer.unannounced) = (false, unannounced);
            self.own_pause = now + OWN_PAUSE;
        }
        is_hint
    }
}

#[async_trait]
impl Hints for DataVersion {
    async fn next(&mut self) -> Result<(), BackendError> {
        loop {
            self.wal.wait(self.next_look).await;
            self.database.check_open(OPERATION)?;
            let now = Instant::now();
            let is_worth_asking = self.wal.is_to_be_asked(now);
            self.next_look = self.wal.next_look(now);
            let change = match self.ask_writer() {
                Some(change) => change,
                None if is_worth_asking => self.ask(now).await?,
                None => Change::None,
            };
            if self.is_hint(change, now) {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl Hints for Never {
    async fn next(&mut self) -> Result<(), BackendError> {
        pending().await
    }
}

async fn read(connection: &mut SqliteConnection) -> Result<i64, BackendError> {
    sqlx::query_scalar(sql::READ_DATA_VERSION).fetch_one(connection).await.during(OPERATION)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::backend::Backend;
    use crate::backend::sqlite::fixture_tests::{Fixture, new_run};

    use super::*;

    #[tokio::test]
    async fn a_commit_that_leaves_no_trace_in_the_file_is_seen() {
        let fixture = Fixture::file().await;
        let file = fixture.backend.database.file.as_ref().unwrap();
        let mut connection = file.open_connection(OPERATION).await.unwrap();
        let seen = read(&mut connection).await.unwrap();
        let now = Instant::now();
        // The WAL of another database, which there is not: it never changes, and is not taken for changed.
        let long_ago = now.checked_sub(Duration::from_secs(60)).unwrap();
        let wal = WalFile::of(&fixture.directory.path().join("none.db"), long_ago);
        let mut hints = DataVersion::new(&fixture.backend.database, connection, wal, seen, now);
        for _ in 0..3 {
            fixture.start().await;
            hints.next().await.unwrap();
        }
    }

    /// Of a database whose writer has looked once, for its first look has nothing to compare with.
    async fn hints_of(fixture: &Fixture) -> DataVersion {
        fixture.start().await;
        let file = fixture.backend.database.file.as_ref().unwrap();
        let mut connection = file.open_connection(OPERATION).await.unwrap();
        let seen = read(&mut connection).await.unwrap();
        let now = Instant::now();
        DataVersion::new(&fixture.backend.database, connection, WalFile::of(&file.path, now), seen, now)
    }

    #[tokio::test]
    async fn what_may_be_our_own_is_said_now_and_then_and_what_cannot_be_at_once() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        fixture.start().await;
        let change = hints.ask(now).await.unwrap();
        assert_eq!(change, Change::MayBeOwn);
        assert!(hints.is_hint(change, now));
        assert!(!hints.is_hint(Change::MayBeOwn, now), "so soon after the other");
        assert!(hints.is_hint(Change::OfOthers, now));
        assert!(!hints.is_hint(Change::None, now));
        assert!(hints.is_hint(Change::None, now + OWN_PAUSE), "what was put off");
        assert!(!hints.is_hint(Change::None, now + OWN_PAUSE * 3), "once");
    }

    #[tokio::test]
    async fn a_busy_writer_tells_its_own_commits_from_those_of_others() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        assert_eq!(hints.ask_writer(), None, "it has not looked");
        fixture.start().await;
        assert_eq!(hints.ask_writer(), Some(Change::None));
        other.commit(&[crate::backend::Write::Start(new_run())]).await.unwrap();
        assert_eq!(hints.ask_writer(), None);
        fixture.start().await;
        assert_eq!(hints.ask_writer(), Some(Change::OfOthers));
        assert!(hints.is_hint(Change::OfOthers, now));

        // SQLite is asked between two looks of the writer: the second says whose commit it was.
        fixture.start().await;
        assert_eq!(hints.ask_writer(), Some(Change::None));
        assert!(hints.is_hint(Change::MayBeOwn, now) && !hints.is_hint(Change::MayBeOwn, now));
        fixture.start().await;
        assert_eq!(hints.ask_writer(), Some(Change::None));
        assert!(!hints.is_hint(Change::None, now + OWN_PAUSE), "it was our own");
    }

    #[tokio::test]
    async fn what_the_writer_saw_before_sqlite_was_asked_clears_nothing() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        fixture.start().await;
        let change = hints.ask(now).await.unwrap();
        hints.own_pause = now + OWN_PAUSE;
        assert!(!hints.is_hint(change, now));
        assert_eq!(hints.ask_writer(), None, "it has not looked since");
        assert!(hints.is_hint(Change::None, now + OWN_PAUSE));
    }

    #[tokio::test]
    async fn the_transaction_of_a_step_is_a_hint_though_it_is_our_own() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        let mut writer = fixture.backend.database.writer.lock().await.unwrap();
        writer.begin_nesting().await.unwrap();
        writer.commit().await.unwrap();
        fixture.start().await;
        assert_eq!(hints.ask_writer(), Some(Change::None));
        assert!(hints.is_hint(Change::None, now));
        assert!(!hints.is_hint(Change::None, now + OWN_PAUSE), "once");
    }

    #[tokio::test]
    async fn a_commit_after_the_file_began_anew_is_seen() {
        let fixture = Fixture::file().await;
        let mut hints = listen(&fixture.backend.database).await.unwrap();
        let path = fixture.directory.path().join("runs.db");
        for _ in 0..3 {
            fixture.start().await;
            hints.next().await.unwrap();
            // From the beginning of the file again, which becomes empty before.
            let file = fixture.backend.database.file.as_ref().unwrap();
            let mut connection = file.open_connection(OPERATION).await.unwrap();
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
            assert_eq!(std::fs::metadata(path.with_extension("db-wal")).unwrap().len(), 0);
        }
    }
}
