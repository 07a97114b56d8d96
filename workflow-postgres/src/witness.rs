//! The witness of a worker: a second session, which holds a second liveness lock and sends nothing.
//!
//! A connection that is cut ends its session, and the lock of the session with it, although the
//! worker lives. So a worker has two sessions, and counts as dead only while neither lock is held.
//! The end of the process ends both at once. The lease's session learns of a cut only by its next
//! call, but the witness waits for its socket: it learns of a cut at once, and connects again.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{PgPool, Row};
use tokio::task::JoinHandle;

use workflow_engine::model::WorkerId;

use super::call::Limit;
use super::error::Failure;
use super::hints::{SILENCE, answers, connect_listener};
use super::sql::Sql;

/// The longest time to connect and lock. A worker whose witness cannot connect starts without it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a connect that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// The kind of the lock in `end_worker_session.sql`.
const KIND: i16 = 2;

/// The witness of one worker. The drop ends its session.
pub(super) struct Witness {
    task: JoinHandle<()>,
}

/// Connects and holds the lock.
struct Holder {
    /// Has the connect options of the session.
    pool: PgPool,
    sql: Arc<Sql>,
    worker: WorkerId,
}

impl Witness {
    /// Connects, takes the lock, and keeps both on a task of the caller's runtime. If the server
    /// refuses, the task tries again.
    pub(super) async fn start(pool: PgPool, sql: Arc<Sql>, worker: WorkerId) -> Self {
        let holder = Holder { pool, sql, worker };
        let first = holder.open().await;
        if let Err(failure) = &first {
            tracing::warn!(
                %worker,
                %failure,
                "the worker has no second session, so a cut of its connection may look like its death; trying again"
            );
        }
        Self { task: tokio::spawn(holder.keep(first.ok().flatten())) }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Holder {
    /// Opens another session whenever the last one was cut, until the future is dropped.
    async fn keep(self, first: Option<PgListener>) {
        let mut session = first;
        loop {
            if let Some(mut listener) = session.take() {
                wait_for_cut(&mut listener).await;
            }
            session = match self.open().await {
                Ok(session) => session,
                Err(failure) => {
                    tracing::debug!(worker = %self.worker, %failure, "the witness cannot connect, trying again");
                    None
                }
            };
            if session.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Returns a session that holds the lock; `None` if an older session still holds it.
    async fn open(&self) -> Result<Option<PgListener>, Failure> {
        let open = async {
            let mut listener = connect_listener(&self.pool, &self.sql).await?;
            // The driver would connect again by itself, without the lock.
            listener.eager_reconnect(false);
            let mut locked = self.try_lock(&mut listener).await?;
            if !locked {
                let end = self.sql.end_worker_session.query().bind(self.worker.lock_key()).bind(KIND);
                end.execute(&mut listener).await?;
                locked = self.try_lock(&mut listener).await?;
            }
            Ok(locked.then_some(listener))
        };
        Limit::after(TIMEOUT).run(open).await
    }

    async fn try_lock(&self, listener: &mut PgListener) -> Result<bool, Failure> {
        let row = self.sql.lock_witness.query().bind(self.worker.lock_key()).fetch_one(listener).await?;
        Ok(row.try_get("locked")?)
    }
}

/// Returns once the connection is cut, or does not answer.
async fn wait_for_cut(listener: &mut PgListener) {
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            // A message that is not for this session.
            Ok(Ok(Some(_))) => {}
            Ok(_) => return,
            Err(_) => {
                if !answers(listener).await {
                    return;
                }
            }
        }
    }
}
