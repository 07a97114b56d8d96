use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Row};
use tokio::sync::Semaphore;

use workflow_engine::faults::planted;
use workflow_engine::store::{ConnectError, DatabaseErrorKind, Standby, StoreId, StoreOptions, redact};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::migrate::{MIGRATIONS, Migrated, migrate};
use super::pooler::lends_transactions;
use super::session::Session;
use super::sql::Sql;

/// The longest wait for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that rested for longer is checked before it is used, and has this time to answer.
pub(super) const REST: Duration = Duration::from_secs(1);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The connections of a client with one worker beside the pool: for writes, hints, the lease and
/// its witness.
const OWN_CONNECTIONS: u32 = 4;

/// The oldest supported server, by major version.
const OLDEST: u32 = 14;

impl PostgresStore {
    /// Checks the server, brings the schema up to date and creates the pool.
    ///
    /// # Errors
    /// [`ConnectError`]. Nothing but a migration was changed.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self, ConnectError> {
        let sql = Sql::load(&options.schema);
        let pool = pool(&options, &sql).connect_lazy_with(parse(url)?);
        let standby = prepare(&pool, &sql, url, &options).await?;
        Ok(Self::over(pool, false, sql, options, standby))
    }

    /// Does what [`PostgresStore::open`] does over a pool of the application, which stays open when
    /// the store is closed.
    ///
    /// # Errors
    /// [`ConnectError`]. Nothing but a migration was changed.
    pub async fn open_pool(pool: PgPool, options: StoreOptions) -> Result<Self, ConnectError> {
        if pool.is_closed() {
            return Err(ConnectError::UnsuitablePool { reason: "it is closed" });
        }
        let sql = Sql::load(&options.schema);
        let url = pool.connect_options().to_url_lossy().to_string();
        let standby = prepare(&pool, &sql, &url, &options).await?;
        check_pool(&pool, &sql, &url, options.connect_timeout).await?;
        Ok(Self::over(pool, true, sql, options, standby))
    }

    fn over(pool: PgPool, is_shared: bool, sql: Sql, options: StoreOptions, standby: Option<Standby>) -> Self {
        let connections = pool.options().get_max_connections() as usize;
        Self {
            id: StoreId::next(),
            session: Session::default(),
            pool,
            is_shared,
            standby,
            closed: AtomicBool::new(false),
            sql: Arc::new(sql),
            clock: options.clock,
            channel: format!("workflow_{}", options.schema),
            origin: uuid::Uuid::new_v4().simple().to_string(),
            transactions: Arc::new(Semaphore::new((connections / 2).max(1))),
        }
    }
}

/// Checks the server and brings the schema up to date, on a connection with the pool's options.
/// Returns the server if it is a standby, which the options allow.
async fn prepare(pool: &PgPool, sql: &Sql, url: &str, options: &StoreOptions) -> Result<Option<Standby>, ConnectError> {
    let begun = Instant::now();
    let left = || options.connect_timeout.saturating_sub(begun.elapsed());
    let connect_options = pool.connect_options();
    let connecting = async {
        let connecting = PgConnection::connect_with(&connect_options).await;
        connecting.map_err(|error| refused(url, error.into(), "connect"))
    };
    let mut connection = within(options.connect_timeout, url, connecting).await?;
    // Before anything is set on the connection, which may be another client's next.
    let lends = lends_transactions(&mut connection, &connect_options);
    match tokio::time::timeout(left(), lends).await {
        Ok(Ok(lends)) if !lends || planted("lent-sessions") => {}
        Ok(Ok(_)) => return Err(ConnectError::TransactionPooler { url: redact(url) }),
        Ok(Err(failure)) if failure.kind != DatabaseErrorKind::Busy => {
            return Err(refused(url, failure, "open a second connection"));
        }
        Ok(Err(_)) | Err(_) => {
            let needed = pool.options().get_max_connections().saturating_add(OWN_CONNECTIONS);
            return Err(ConnectError::TooFewConnections { url: redact(url), needed });
        }
    }
    let checking = async {
        let configured = sql.configure_session.query().execute(&mut connection).await;
        configured.map_err(|error| refused(url, error.into(), "connect"))?;
        let standby = check_server(&mut connection, sql, url, options.allow_standby).await?;
        let met = sql.timeline.check(&mut connection, &sql.read_timeline).await;
        met.map_err(|failure| refused(url, failure, "look at the timeline"))?;
        Ok(standby)
    };
    let standby = within(left(), url, checking).await?;
    let may_migrate = options.migrate && standby.is_none();
    let migrated = migrate(&mut connection, sql, &options.schema, MIGRATIONS, may_migrate).await;
    match migrated.map_err(|failure| refused(url, failure, "migrate the schema"))? {
        Migrated::UpToDate => {}
        Migrated::Newer { found, known } => return Err(ConnectError::NewerSchema { found, known }),
        Migrated::Missing { found, known } => {
            return Err(ConnectError::NotMigrated { url: redact(url), found, known });
        }
        Migrated::Unreleased => return Err(ConnectError::UnreleasedSchema { url: redact(url) }),
    }
    // The connection is not needed any more, so an error while it closes does not matter.
    let _ = Limit::from_now().run(async { Ok(connection.close().await?) }).await;
    Ok(standby)
}

/// Fails if a connection of the application's pool cannot read the tables: the pool may set another
/// role than its connect options have.
async fn check_pool(pool: &PgPool, sql: &Sql, url: &str, timeout: Duration) -> Result<(), ConnectError> {
    let read = async {
        let mut connection = pool.acquire().await?;
        sql.read_schema_version.query().fetch_one(&mut *connection).await?;
        Ok::<_, Failure>(())
    };
    let read = async { read.await.map_err(|failure| refused(url, failure, "read on a connection of the pool")) };
    within(timeout, url, read).await
}

/// Fails if the database does not answer in this time.
async fn within<T>(
    timeout: Duration,
    url: &str,
    answer: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let late = |_| Err(ConnectError::TimedOut { url: redact(url), after: timeout });
    tokio::time::timeout(timeout, answer).await.unwrap_or_else(late)
}

/// Opens a connection outside the pool, with the settings of our sessions.
pub(super) async fn connect(options: &PgConnectOptions, sql: &Sql) -> Result<PgConnection, Failure> {
    let connect = async {
        let mut connection = PgConnection::connect_with(options).await?;
        sql.configure_session.query().execute(&mut connection).await?;
        sql.timeline.check(&mut connection, &sql.read_timeline).await?;
        Ok(connection)
    };
    Limit::from_now().run(connect).await
}

/// Returns the options of a pool whose connections have the settings of our sessions.
pub(super) fn pool(options: &StoreOptions, sql: &Sql) -> PgPoolOptions {
    pool_of(options.pool_size, sql)
}

/// Returns the options of a pool of this size. See [`pool`].
pub(super) fn pool_of(size: u32, sql: &Sql) -> PgPoolOptions {
    let statements = (sql.configure_session.clone(), sql.read_timeline.clone());
    let timeline = sql.timeline.clone();
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |connection, _| {
            let ((configure, read_timeline), timeline) = (statements.clone(), timeline.clone());
            Box::pin(async move {
                configure.query().execute(&mut *connection).await?;
                let met = timeline.check(connection, &read_timeline).await;
                // The pool logs the error and tries again; `begin_call` learns of it beside.
                met.map_err(|failure| sqlx::Error::Io(std::io::Error::other(failure.into_source())))
            })
        })
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for < REST {
                    return Ok(true);
                }
                Ok(matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
            })
        })
}

fn parse(url: &str) -> Result<PgConnectOptions, ConnectError> {
    // The driver logs unknown parameters with their values, so a mistyped name could show a
    // password.
    let silent = tracing::subscriber::NoSubscriber::default();
    let parsed = tracing::subscriber::with_default(silent, || url.parse::<PgConnectOptions>());
    let options = parsed.map_err(|error| ConnectError::InvalidUrl {
        url: redact(url),
        reason: match error {
            sqlx::Error::Configuration(reason) => reason.to_string(),
            error => error.to_string(),
        },
    })?;
    for name in unknown_parameters(url) {
        tracing::warn!(name, "the database URL has a parameter that is not known, and that is passed over");
    }
    // Poolers refuse this startup parameter unless they are told to ignore it. No value of ours is
    // a float, and the default of every supported server loses none of its digits.
    Ok(options.application_name("workflow").extra_float_digits(None))
}

/// Returns the names of the parameters that the driver ignores.
fn unknown_parameters(url: &str) -> Vec<&str> {
    const KNOWN: [&str; 18] = [
        "sslmode",
        "ssl-mode",
        "sslrootcert",
        "ssl-root-cert",
        "ssl-ca",
        "sslcert",
        "ssl-cert",
        "sslkey",
        "ssl-key",
        "statement-cache-capacity",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "application_name",
        "options",
    ];
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    // An escaped name may be a known one.
    names.filter(|name| !KNOWN.contains(name) && !name.starts_with("options[") && !name.contains('%')).collect()
}

/// Refuses a server that cannot keep runs. Returns the server if it is a standby, which is allowed.
async fn check_server(
    connection: &mut PgConnection,
    sql: &Sql,
    url: &str,
    allow_standby: bool,
) -> Result<Option<Standby>, ConnectError> {
    let row = sql.check_server.query().fetch_one(&mut *connection).await.map_err(Failure::from);
    let server = row.and_then(|row| {
        Ok(Server {
            standby: row.try_get("standby")?,
            version_number: row.try_get("version_number")?,
            version: row.try_get("version")?,
            read_only: row.try_get("read_only")?,
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
        })
    });
    let server = server.map_err(|failure| refused(url, failure, "look at the server"))?;
    let is_standby = server.standby;
    server.accept(url, allow_standby)?;
    if !is_standby {
        return Ok(None);
    }
    let found = sql.read_standby.query().fetch_one(connection).await.map_err(Failure::from);
    let primary = found.and_then(|row| Ok(row.try_get("primary_address")?));
    let primary = primary.map_err(|failure| refused(url, failure, "look at the standby"))?;
    Ok(Some(Standby::new(redact(url), primary)))
}

/// The properties of the server.
struct Server {
    standby: bool,
    version_number: i32,
    version: String,
    read_only: bool,
    fsync: bool,
    full_page_writes: bool,
}

impl Server {
    fn accept(self, url: &str, allow_standby: bool) -> Result<(), ConnectError> {
        if u32::try_from(self.version_number / 10_000).unwrap_or(0) < OLDEST {
            return Err(ConnectError::OldPostgres { found: self.version, required: OLDEST });
        }
        if self.standby && !allow_standby {
            return Err(ConnectError::Standby { url: redact(url) });
        }
        if self.read_only && !self.standby {
            return Err(ConnectError::ReadOnly { url: redact(url) });
        }
        if !self.standby && (!self.fsync || !self.full_page_writes) {
            tracing::warn!(
                fsync = self.fsync,
                full_page_writes = self.full_page_writes,
                "this PostgreSQL server can lose or damage committed data when its machine fails; switch both on"
            );
        }
        Ok(())
    }
}

fn refused(url: &str, failure: Failure, operation: &'static str) -> ConnectError {
    if failure.kind == DatabaseErrorKind::ReadOnly {
        return ConnectError::ReadOnly { url: redact(url) };
    }
    if failure.is_foreign_session() {
        return ConnectError::TransactionPooler { url: redact(url) };
    }
    ConnectError::Database { url: redact(url), source: failure.during(operation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            standby: false,
            version_number: 140_000,
            version: "14.0".into(),
            read_only: false,
            fsync: true,
            full_page_writes: true,
        }
    }

    #[test]
    fn parameters_that_are_passed_over_are_named_without_their_values() {
        let url = "postgres://db/app?user=a&passwort=secret&options[a]=b&connect_timeout=3&host=h";
        assert_eq!(unknown_parameters(url), ["passwort", "connect_timeout"]);
        assert_eq!(unknown_parameters("postgres://db/app"), Vec::<&str>::new());
    }

    #[test]
    fn a_server_that_cannot_keep_runs_is_refused() {
        assert!(server().accept("postgres://db", false).is_ok());
        let old = Server { version_number: 130_014, ..server() };
        assert!(matches!(old.accept("postgres://db", false), Err(ConnectError::OldPostgres { required: 14, .. })));
        let standby = Server { standby: true, read_only: true, ..server() };
        assert!(matches!(standby.accept("postgres://db", false), Err(ConnectError::Standby { .. })));
        let standby = Server { standby: true, read_only: true, ..server() };
        assert!(standby.accept("postgres://db", true).is_ok(), "a program that only reads allows it");
        let read_only = Server { read_only: true, ..server() };
        assert!(matches!(read_only.accept("postgres://db", false), Err(ConnectError::ReadOnly { .. })));
    }
}
