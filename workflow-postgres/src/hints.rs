use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{Executor, PgConnection};

use workflow_engine::store::{DatabaseError, Hints};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::open::pool_of;
use super::sql::Sql;

const LISTEN: &str = "listen for hints";

/// A silent connection is asked after this long whether it lives, for nothing else would ever notice.
const SILENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(10);

/// Tells the listeners of this channel but that of this origin, in a transaction of its own, which nobody waits for to be on disk:
/// what it tells of is, and a hint that is lost in a crash has no listener left either.
pub(super) async fn notify(
    connection: &mut PgConnection,
    sql: &Sql,
    channel: &str,
    origin: &str,
) -> Result<(), Failure> {
    sql.notify_change.query().bind(channel).bind(origin).execute(connection).await?;
    Ok(())
}

/// Tells the listeners of this channel when the application's transaction commits, all of them: no executor announces what it did.
/// Another statement than [`notify`]'s, which
/// would make the application's own commit one that a crash may undo.
pub(super) async fn notify_within(connection: &mut PgConnection, sql: &Sql, channel: &str) -> Result<(), Failure> {
    sql.notify_change_within.query().bind(channel).execute(connection).await?;
    Ok(())
}

/// Notifications on a connection of their own.
pub(super) struct PostgresHints {
    options: PgConnectOptions,
    sql: Arc<Sql>,
    channel: String,
    origin: String,
    /// `None` after the connection was lost, until the next call makes another.
    listener: Option<PgListener>,
}

impl PostgresHints {
    /// Connects and listens.
    pub(super) async fn open(store: &PostgresStore) -> Result<Self, DatabaseError> {
        let mut hints = Self {
            options: store.options.clone(),
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
            // A pool of its own: the driver's listener knows no other way to connect with given options.
            let pool = pool_of(1, &self.sql).connect_lazy_with(self.options.clone());
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(&self.channel).await?;
            Ok(listener)
        };
        Limit::from_now().run(connect).await
    }
}

#[async_trait]
impl Hints for PostgresHints {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        match &mut self.listener {
            // Stays in place while it is awaited: a dropped wait leaves what has arrived to the next one.
            Some(listener) => {
                if !wait(listener, &self.origin).await {
                    self.listener = None;
                }
            }
            // What was sent while there was no connection is unknown, so that is a hint.
            None => self.listener = Some(self.connect().await.map_err(|failure| failure.during(LISTEN))?),
        }
        Ok(())
    }
}

/// Waits for a notification of another origin. `false` if the connection was lost: what was sent meanwhile is unknown, so that is a hint.
async fn wait(listener: &mut PgListener, origin: &str) -> bool {
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            // A busy process sends 20 a second, and would look for what others may have done after each.
            Ok(Ok(Some(own))) if own.payload() == origin => {}
            Ok(answer) => return matches!(answer, Ok(Some(_))),
            Err(_) => {
                let alive = tokio::time::timeout(ANSWER, listener.execute("SELECT 1")).await;
                if !matches!(alive, Ok(Ok(_))) {
                    return false;
                }
            }
        }
    }
}

impl fmt::Debug for PostgresHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresHints").field("channel", &self.channel).finish_non_exhaustive()
    }
}
