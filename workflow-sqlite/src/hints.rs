//! Hints from other processes. They send one to a socket after a commit. It may be lost, and some
//! processes send none; but SQLite counts the commits of other connections, so checks find them.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use workflow_engine::store::{DatabaseError, Listener};

use super::database::Database;
use super::error::{During, within_deadline};
use super::hint_socket::HintSocket;
use super::sql;
use super::wal_file::WalFile;
use super::writer::Seen;

const OPERATION: &str = "look for changes of other processes";

/// The shortest time between two hints about the transactions of steps of this process. Other waits
/// do not depend on it.
const OWN_PAUSE: Duration = Duration::from_millis(20);

/// For this time after a hint from a socket, a commit that a check finds waits for the next one.
/// Most likely the last hint told of the commit, or a hint is about to tell of it.
const AFTER_HINT: Duration = Duration::from_millis(10);

/// Waits at the socket, and checks the WAL and, if that has changed, the data version on a
/// connection of its own. The version counts the commits of every other connection, including this
/// process's writer. If the change may be the writer's, the listener asks the writer, whose own
/// commits do not change its version.
#[derive(Debug)]
struct DataVersion {
    database: Arc<Database>,
    socket: HintSocket,
    /// A check has found a commit of another process, and no hint came since.
    untold: bool,
    /// No hint about an untold commit is given before this time.
    others_pause: Instant,
    connection: SqliteConnection,
    wal: WalFile,
    seen: i64,
    writer: WriterSeen,
    /// A change was seen that this process may have made.
    in_doubt: bool,
    /// No hint about a transaction of this process is sent before this time.
    own_pause: Instant,
    /// When the next check is due. A wait that is dropped and begun again does not delay it.
    next_look: Instant,
}

/// The counts of the writer when they were last read: its commits when SQLite was last asked, the
/// others when the writer was.
#[derive(Debug)]
struct WriterSeen {
    commits: u64,
    unannounced: u64,
    looks: u64,
    others: u64,
}

/// A listener for a database in memory, which no other process uses.
#[derive(Debug)]
struct Never;

/// See [`Store::listen`](workflow_engine::store::Store::listen).
pub(super) async fn listen(database: &Arc<Database>) -> Result<Box<dyn Listener>, DatabaseError> {
    database.check_open(OPERATION)?;
    let Some(file) = &database.file else { return Ok(Box::new(Never)) };
    let mut connection = file.open_connection(OPERATION).await?;
    let socket = file.hints.open();
    let now = Instant::now();
    // Before the version: a commit in between shows in the file.
    let wal = WalFile::of(&file.path, now);
    let seen = read(&mut connection).await?;
    Ok(Box::new(DataVersion::new(database, socket, connection, wal, seen, now)))
}

impl WriterSeen {
    fn of(writer: &Seen) -> Self {
        // The checks are read first, because the writer counts what a check saw before it counts
        // the check.
        let looks = writer.looks();
        Self { looks, others: writer.others(), unannounced: writer.unannounced(), commits: writer.commits() }
    }
}

impl DataVersion {
    fn new(
        database: &Arc<Database>,
        socket: HintSocket,
        connection: SqliteConnection,
        wal: WalFile,
        seen: i64,
        now: Instant,
    ) -> Self {
        Self {
            database: Arc::clone(database),
            socket,
            untold: false,
            others_pause: now,
            connection,
            wal,
            seen,
            writer: WriterSeen::of(database.writer.seen()),
            in_doubt: false,
            own_pause: now,
            next_look: now,
        }
    }

    /// Notes a hint from the socket, which also stands for every commit that was found before it.
    fn note_hint(&mut self, now: Instant) {
        self.untold = false;
        self.others_pause = now + AFTER_HINT;
    }

    /// `true` if it is time for a hint about commits of other processes, after a check that found
    /// one or none.
    fn is_to_tell_of_others(&mut self, came: bool, now: Instant) -> bool {
        self.untold |= came;
        let is_time = self.untold && now >= self.others_pause;
        if is_time {
            self.untold = false;
        }
        is_time
    }

    /// `true` if other processes have committed since the last check.
    async fn others_came(&mut self, now: Instant) -> Result<bool, DatabaseError> {
        // Called at every check, because it learns from each how often to check.
        let is_worth_asking = self.wal.is_to_be_asked(now);
        self.next_look = self.wal.next_look(now);
        match self.ask_writer() {
            Some(true) => return Ok(true),
            // A busy writer checks at the beginning of each transaction, so no other check is
            // needed.
            Some(false) if self.database.writer.is_in_use() => return Ok(false),
            Some(false) | None => {}
        }
        if is_worth_asking && self.ask(now).await? {
            return Ok(true);
        }
        // A writer that is in use checks when it next begins.
        Ok(self.in_doubt && self.database.writer.try_look().await? && self.ask_writer() == Some(true))
    }

    /// `true` if the writer has seen commits of other processes since it was last asked. `None`: it
    /// has not checked.
    fn ask_writer(&mut self) -> Option<bool> {
        let WriterSeen { looks, others, .. } = WriterSeen::of(self.database.writer.seen());
        if looks == self.writer.looks {
            return None;
        }
        self.in_doubt = false;
        let came = others != self.writer.others;
        (self.writer.looks, self.writer.others) = (looks, others);
        Some(came)
    }

    /// `true` if SQLite reports commits since it was last asked. A change that this process may
    /// have made is left in doubt.
    async fn ask(&mut self, now: Instant) -> Result<bool, DatabaseError> {
        let version = read(&mut self.connection).await?;
        self.wal.answered(now);
        // A check of the writer before this moment does not explain the change.
        let WriterSeen { looks, commits, .. } = WriterSeen::of(self.database.writer.seen());
        self.writer.looks = looks;
        let may_be_own = std::mem::replace(&mut self.writer.commits, commits) != commits;
        let changed = std::mem::replace(&mut self.seen, version) != version;
        self.in_doubt |= changed && may_be_own;
        Ok(changed && !may_be_own)
    }

    /// `true` if it is time for a hint about commits of this process that no executor reports.
    fn is_to_tell_of_own(&mut self, now: Instant) -> bool {
        let unannounced = self.database.writer.seen().unannounced();
        let is_time = self.writer.unannounced != unannounced && now >= self.own_pause;
        if is_time {
            self.writer.unannounced = unannounced;
            self.own_pause = now + OWN_PAUSE;
        }
        is_time
    }
}

#[async_trait]
impl Listener for DataVersion {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        loop {
            let next_look = if self.untold { self.next_look.min(self.others_pause) } else { self.next_look };
            let is_hint = tokio::select! {
                biased;
                () = self.socket.received() => true,
                () = self.wal.wait(next_look) => false,
            };
            self.database.check_open(OPERATION)?;
            let now = Instant::now();
            if is_hint {
                self.note_hint(now);
                return Ok(());
            }
            let others_came = within_deadline(OPERATION, self.others_came(now)).await?;
            if self.is_to_tell_of_others(others_came, now) || self.is_to_tell_of_own(now) {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl Listener for Never {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        pending().await
    }
}

async fn read(connection: &mut SqliteConnection) -> Result<i64, DatabaseError> {
    sqlx::query_scalar(sql::READ_DATA_VERSION).fetch_one(connection).await.during(OPERATION)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::SqliteStore;
    use crate::fixture_tests::{Fixture, new_run};
    use workflow_engine::store::{Store, Write};

    use super::*;

    /// Longer than any hint takes.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Longer than any test takes.
    #[cfg(unix)]
    const FAR: Duration = Duration::from_secs(3600);

    async fn start(process: &SqliteStore) {
        process.commit(&[Write::Start(new_run())]).await.unwrap();
    }

    /// Without a transaction that begins with a check, as a single step commits.
    async fn change_alone(fixture: &Fixture) {
        let mut writer = fixture.store.database.writer.lock().await.unwrap();
        let change = "UPDATE workflow_runs SET wakes = wakes + 1";
        let changed = writer.alone(async |connection| sqlx::query(change).execute(connection).await.during(OPERATION));
        changed.await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_leaves_no_trace_in_the_file_is_seen() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        // The WAL of a database that does not exist: it never changes.
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        hints.wal = WalFile::of(&fixture.directory.path().join("none.db"), long_ago);
        for _ in 0..3 {
            start(&other).await;
            hints.next().await.unwrap();
        }
    }

    /// A listener on a database whose writer has checked once, because its first check has nothing
    /// to compare with.
    async fn hints_of(fixture: &Fixture) -> DataVersion {
        start(&fixture.store).await;
        let file = fixture.store.database.file.as_ref().unwrap();
        let mut connection = file.open_connection(OPERATION).await.unwrap();
        let seen = read(&mut connection).await.unwrap();
        let (socket, now) = (file.hints.open(), Instant::now());
        DataVersion::new(&fixture.store.database, socket, connection, WalFile::of(&file.path, now), seen, now)
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_hint_of_another_process_needs_no_check() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        let path = fixture.store.database.file.as_ref().unwrap().path.clone();
        let far = Instant::now() + FAR;
        for _ in 0..3 {
            // A file that changes all the time is not watched. Its next check is far away.
            (hints.wal, hints.next_look) = (WalFile::of(&path, far), far);
            start(&other).await;
            other.hint().await.unwrap();
            tokio::time::timeout(LIMIT, hints.next()).await.unwrap().unwrap();
            assert_eq!(hints.next_look, far, "no check came before the hint");
        }
    }

    #[tokio::test]
    async fn a_commit_whose_hint_is_lost_is_found_by_a_check() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        start(&other).await;
        other.hint().await.unwrap();
        tokio::time::timeout(LIMIT, hints.next()).await.unwrap().unwrap();
        // No socket can be found any more, and the last hint has come just now.
        std::fs::remove_dir_all(fixture.directory.path().join("runs.db-workers")).unwrap_or_default();
        while let Ok(late) = tokio::time::timeout(AFTER_HINT * 10, hints.next()).await {
            late.unwrap();
        }
        hints.note_hint(Instant::now());
        start(&other).await;
        other.hint().await.unwrap();
        tokio::time::timeout(LIMIT, hints.next()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_is_found_after_a_hint_waits_for_the_next_one() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        assert!(!hints.is_to_tell_of_others(false, now));
        assert!(hints.is_to_tell_of_others(true, now), "no hint came before it");
        hints.note_hint(now);
        assert!(!hints.is_to_tell_of_others(true, now));
        assert!(hints.is_to_tell_of_others(false, now + AFTER_HINT), "no hint came after it");
        assert!(!hints.is_to_tell_of_others(false, now + AFTER_HINT), "it is told once");
        hints.note_hint(now);
        assert!(!hints.is_to_tell_of_others(true, now));
        hints.note_hint(now);
        assert!(!hints.is_to_tell_of_others(false, now + AFTER_HINT), "the hint stands for it");
    }

    #[tokio::test]
    async fn own_commits_are_told_from_those_of_others() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        assert!(!hints.others_came(now).await.unwrap());
        start(&other).await;
        assert!(hints.others_came(now).await.unwrap(), "nothing was committed here");

        // A busy writer checks by itself.
        start(&fixture.store).await;
        assert_eq!(hints.ask_writer(), Some(true), "the one before");
        start(&fixture.store).await;
        assert_eq!(hints.ask_writer(), Some(false));
        start(&other).await;
        assert_eq!(hints.ask_writer(), None);
        start(&fixture.store).await;
        assert_eq!(hints.ask_writer(), Some(true));

        // A writer at rest is asked to check, after commits that may be of this or another process.
        while hints.others_came(now).await.unwrap() {}
        change_alone(&fixture).await;
        assert!(!hints.ask(now).await.unwrap() && hints.in_doubt);
        assert!(!hints.others_came(now).await.unwrap() && !hints.in_doubt);
        change_alone(&fixture).await;
        start(&other).await;
        assert!(hints.others_came(now).await.unwrap());

        // A writer in use leaves the change in doubt.
        change_alone(&fixture).await;
        start(&other).await;
        let in_use = fixture.store.database.writer.lock().await.unwrap();
        assert!(!hints.others_came(now).await.unwrap() && hints.in_doubt);
        drop(in_use);
        assert!(hints.others_came(now).await.unwrap() && !hints.in_doubt);
    }

    #[tokio::test]
    async fn only_a_writer_in_use_is_left_to_look() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        for in_use in [false, true] {
            start(&fixture.store).await;
            start(&other).await;
            let user = if in_use { Some(fixture.store.database.writer.lock().await.unwrap()) } else { None };
            let seen = hints.seen;
            let came = hints.others_came(now).await.unwrap();
            assert_eq!((came, hints.seen != seen), (!in_use, !in_use), "whether it came, and whether SQLite was asked");
            drop(user);
            assert_eq!(hints.others_came(now).await.unwrap(), in_use, "it is told once");
            while hints.others_came(now).await.unwrap() {}
        }
    }

    #[tokio::test]
    async fn what_the_writer_saw_before_sqlite_was_asked_settles_nothing() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        start(&fixture.store).await;
        assert!(!hints.ask(Instant::now()).await.unwrap() && hints.in_doubt);
        assert_eq!(hints.ask_writer(), None);
        assert!(hints.in_doubt);
    }

    #[tokio::test]
    async fn the_transaction_of_a_step_is_a_hint_though_it_is_our_own() {
        let fixture = Fixture::file().await;
        let mut hints = hints_of(&fixture).await;
        let now = Instant::now();
        let mut writer = fixture.store.database.writer.lock().await.unwrap();
        writer.begin_nesting().await.unwrap();
        writer.commit().await.unwrap();
        start(&fixture.store).await;
        assert!(!hints.others_came(now).await.unwrap());
        assert!(hints.is_to_tell_of_own(now) && !hints.is_to_tell_of_own(now + OWN_PAUSE), "once");
    }

    #[tokio::test]
    async fn a_commit_after_the_file_began_anew_is_seen() {
        let fixture = Fixture::file().await;
        let other = fixture.second_process().await;
        let mut hints = listen(&fixture.store.database).await.unwrap();
        let path = fixture.directory.path().join("runs.db");
        for _ in 0..3 {
            start(&other).await;
            hints.next().await.unwrap();
            // The WAL begins again at the start of the file, which is emptied before.
            let file = fixture.store.database.file.as_ref().unwrap();
            let mut connection = file.open_connection(OPERATION).await.unwrap();
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
            assert_eq!(std::fs::metadata(path.with_extension("db-wal")).unwrap().len(), 0);
        }
    }
}
