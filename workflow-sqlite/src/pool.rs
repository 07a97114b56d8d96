//! A pool of the application: which file it leads to, and whether that file can be shared with it.

use std::path::PathBuf;

use sqlx::{ConnectOptions, Connection, SqlitePool};

use workflow_engine::store::{ConnectError, DatabaseError, redact};

use super::error::{During, within_deadline};
use super::sql;

const OPERATION: &str = "check the pool";

const REPLACED: &str = "its file was removed or replaced since the pool opened it; open the pool again";

/// Returns the file that the pool's connections have opened. A pool that has opened none yet opens
/// one, and creates the file if its options say so.
pub(super) async fn find_file(pool: &SqlitePool) -> Result<PathBuf, ConnectError> {
    if pool.is_closed() {
        return Err(unsuitable("it is closed"));
    }
    let reading = async {
        let mut connection = pool.acquire().await.during(OPERATION)?;
        let file: Option<String> =
            sqlx::query_scalar(sql::READ_MAIN_FILE).fetch_one(&mut *connection).await.during(OPERATION)?;
        let locking: String =
            sqlx::query_scalar(sql::READ_LOCKING_MODE).fetch_one(&mut *connection).await.during(OPERATION)?;
        Ok((file.unwrap_or_default(), locking))
    };
    let url = format!("sqlite://{}", pool.connect_options().get_filename().display());
    let (file, locking) = within_deadline(OPERATION, reading).await.map_err(|error| failed(&url, error))?;
    if file.is_empty() {
        return Err(unsuitable(
            "its database is in memory, where other connections do not see it; open a file, or use \
             Client::connect(\"sqlite::memory:\")",
        ));
    }
    if locking != "normal" {
        return Err(unsuitable("its connections lock the file for themselves; open it with locking_mode NORMAL"));
    }
    let file = PathBuf::from(file);
    // Our own connections would create another file, whose WAL the pool's would then read.
    if file.exists() { Ok(file) } else { Err(unsuitable(REPLACED)) }
}

/// Checks the pool after the file was switched to WAL and migrated.
pub(super) async fn check(pool: &SqlitePool, url: &str) -> Result<(), ConnectError> {
    let checking = async {
        let mut connection = pool.acquire().await.during(OPERATION)?;
        let find = sqlx::query_as(sql::FIND_SCHEMA);
        let (_, has_lanes): (bool, bool) = find.fetch_one(&mut *connection).await.during(OPERATION)?;
        drop(connection);
        Ok((has_lanes, opens_in_wal(pool).await))
    };
    let (sees_tables, opens_in_wal) = within_deadline(OPERATION, checking).await.map_err(|error| failed(url, error))?;
    if !sees_tables {
        return Err(unsuitable(REPLACED));
    }
    if !opens_in_wal {
        return Err(unsuitable(
            "its connections set another journal mode than WAL; leave journal_mode out of its options, or set WAL",
        ));
    }
    Ok(())
}

/// `true` if the next connection of the pool can be opened without leaving WAL. A journal mode
/// among the options is set by every new connection. While ours are open, SQLite refuses that.
async fn opens_in_wal(pool: &SqlitePool) -> bool {
    let Ok(mut fresh) = pool.connect_options().connect().await else { return false };
    let mode = sqlx::query_scalar::<_, String>(sql::READ_JOURNAL_MODE).fetch_one(&mut fresh).await;
    // Nothing was written, so an error while it closes does not matter.
    let _ = fresh.close().await;
    mode.is_ok_and(|mode| mode == "wal")
}

fn unsuitable(reason: &'static str) -> ConnectError {
    ConnectError::UnsuitablePool { reason }
}

fn failed(url: &str, source: DatabaseError) -> ConnectError {
    ConnectError::Database { url: redact(url), source }
}
