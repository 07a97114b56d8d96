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

const OPERATION: &str = "look for changes of other processes";

/// Between two hints that may be of this process's own making: 50 a second cost it little, and others wait for no more.
const OWN_PAUSE: Duration = Duration::from_millis(20);

/// Looks at the WAL and, when that has changed, at the data version from a connection of its own.
#[derive(Debug)]
struct DataVersion {
    database: Arc<Database>,
    connection: SqliteConnection,
    wal: WalFile,
    seen: i64,
    /// How many commits this process had made when it last looked.
    own_commits: u64,
    /// No hint that may be of this process's own making comes before this.
    own_pause: Instant,
    /// There was a change during the pause.
    put_off: bool,
    /// When the next look is due: a wait that is dropped and begun again does not put it off.
    next_look: Instant,
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

impl DataVersion {
    fn new(database: &Arc<Database>, connection: SqliteConnection, wal: WalFile, seen: i64, now: Instant) -> Self {
        let (database, own_commits) = (Arc::clone(database), database.writer.commits());
        Self { database, connection, wal, seen, own_commits, own_pause: now, put_off: false, next_look: now }
    }

    /// Whether it is time to say that somebody has committed. The version counts the commits of every other connection, those of
    /// this process's writer too: a busy process would hint at itself at every look.
    fn is_hint(&mut self, changed: bool, now: Instant) -> bool {
        let own_commits = self.database.writer.commits();
        let may_be_own = std::mem::replace(&mut self.own_commits, own_commits) != own_commits;
        if changed && !may_be_own {
            return true;
        }
        self.put_off |= changed;
        let is_hint = self.put_off && now >= self.own_pause;
        if is_hint {
            self.put_off = false;
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
            let ask = self.wal.is_to_be_asked(now);
            self.next_look = self.wal.next_look(now);
            let mut changed = false;
            if ask {
                let version = within_deadline(OPERATION, read(&mut self.connection)).await?;
                self.wal.answered(now);
                changed = std::mem::replace(&mut self.seen, version) != version;
            }
            if self.is_hint(changed, now) {
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

    use crate::backend::sqlite::fixture_tests::Fixture;

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

    #[tokio::test]
    async fn what_may_be_our_own_is_said_now_and_then_and_what_cannot_be_at_once() {
        let fixture = Fixture::file().await;
        let file = fixture.backend.database.file.as_ref().unwrap();
        let connection = file.open_connection(OPERATION).await.unwrap();
        let now = Instant::now();
        let wal = WalFile::of(&file.path, now);
        let mut hints = DataVersion::new(&fixture.backend.database, connection, wal, 0, now);
        fixture.start().await;
        assert!(hints.is_hint(true, now));
        fixture.start().await;
        assert!(!hints.is_hint(true, now), "so soon after the other");
        assert!(hints.is_hint(true, now), "nothing was committed here since");
        assert!(!hints.is_hint(false, now));
        assert!(hints.is_hint(false, now + OWN_PAUSE), "what was put off");
        assert!(!hints.is_hint(false, now + OWN_PAUSE * 3), "once");
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
