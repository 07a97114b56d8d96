use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgListener;
use sqlx::{Executor, PgConnection, PgPool};

use workflow_engine::store::{DatabaseError, Listener};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::open::pool_of;
use super::sql::Sql;

const LISTEN: &str = "listen for hints";

/// A silent connection is checked after this time, because nothing else would notice that it is
/// dead.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(10);

/// Notifies the listeners of this channel, except those of this origin, in a transaction of its own
/// that does not wait for the disk. The announced change is on disk already, and after a crash a
/// lost hint has no listener.
pub(super) async fn notify(
    connection: &mut PgConnection,
    sql: &Sql,
    channel: &str,
    origin: &str,
) -> Result<(), Failure> {
    sql.notify_change.query().bind(channel).bind(origin).execute(connection).await?;
    Ok(())
}

/// Notifies all listeners of this channel when the application's transaction commits, because no
/// executor reports what it did. It is another statement than [`notify`]'s, which would let a crash
/// undo the application's own commit.
pub(super) async fn notify_within(connection: &mut PgConnection, sql: &Sql, channel: &str) -> Result<(), Failure> {
    sql.notify_change_within.query().bind(channel).execute(connection).await?;
    Ok(())
}

/// A source of hints: notifications on a connection of its own.
pub(super) struct PostgresListener {
    /// Has the connect options of its connection.
    pool: PgPool,
    sql: Arc<Sql>,
    channel: String,
    origin: String,
    /// `None` after the connection was lost, until the next call opens another.
    listener: Option<PgListener>,
}

impl PostgresListener {
    /// Connects and listens.
    pub(super) async fn open(store: &PostgresStore) -> Result<Self, DatabaseError> {
        let mut hints = Self {
            pool: store.pool.clone(),
            sql: Arc::clone(&store.sql),
            channel: store.channel.clone(),
            origin: store.origin.clone(),
            listener: None,
        };
        hints.listener = Some(hints.connect().await.map_err(|failure| failure.during(LISTEN))?);
        Ok(hints)
    }

    async fn connect(&self) -> Result<PgListener, Failure> {
        let connect = async {
            let mut listener = connect_listener(&self.pool, &self.sql).await?;
            listener.listen(&self.channel).await?;
            Ok(listener)
        };
        Limit::from_now().run(connect).await
    }
}

/// How often the readers of a standby look again.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

/// A source of hints on a standby, which passes no notifications on: one per interval.
#[derive(Debug)]
pub(super) struct StandbyListener;

#[async_trait]
impl Listener for StandbyListener {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        tokio::time::sleep(STANDBY_INTERVAL).await;
        Ok(())
    }
}

#[async_trait]
impl Listener for PostgresListener {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        match &mut self.listener {
            // The listener stays in place while it is awaited, so a dropped wait leaves what has
            // arrived to the next one.
            Some(listener) => {
                if !wait(listener, &self.origin).await {
                    self.listener = None;
                }
            }
            // Notifications may have been lost while there was no connection, so a reconnect counts
            // as a hint.
            None => self.listener = Some(self.connect().await.map_err(|failure| failure.during(LISTEN))?),
        }
        Ok(())
    }
}

/// Waits for a notification of another origin. Returns `false` if the connection was lost:
/// notifications may have been lost too, so that counts as a hint.
async fn wait(listener: &mut PgListener, origin: &str) -> bool {
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            // A busy process sends many, and would check for changes of other processes after each.
            Ok(Ok(Some(own))) if own.payload() == origin => {}
            Ok(answer) => return matches!(answer, Ok(Some(_))),
            Err(_) => {
                if !answers(listener).await {
                    return false;
                }
            }
        }
    }
}

/// Returns a listener on a connection of its own, which has the connect options of this pool.
pub(super) async fn connect_listener(pool: &PgPool, sql: &Sql) -> Result<PgListener, Failure> {
    // A pool of its own, because the driver's listener knows no other way to connect with given
    // options.
    let options = pool.connect_options().as_ref().clone();
    let own = pool_of(1, sql).connect_lazy_with(options);
    tokio::select! {
        biased;
        listener = PgListener::connect_with(&own) => Ok(listener?),
        // The pool would try until its own time-out, and not say why.
        failure = sql.timeline.refusal() => Err(failure),
    }
}

/// Returns `true` if the server answers on the connection of this listener.
pub(super) async fn answers(listener: &mut PgListener) -> bool {
    let answer = tokio::time::timeout(ANSWER, listener.execute("SELECT 1")).await;
    matches!(answer, Ok(Ok(_)))
}

impl fmt::Debug for PostgresListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresListener").field("channel", &self.channel).finish_non_exhaustive()
    }
}
