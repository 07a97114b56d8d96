//! Poolers between client and server that lend a connection of the server for single transactions.
//!
//! Behind one, a lock or a setting of a session stays on a connection that the next client gets,
//! and notifications are lost. Such a pooler looks like a server, and lends the same connection
//! again and again while nothing else wants it. So two clients are made to want one.

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};

use super::error::Failure;

/// A pooler with other clients may lend another connection by chance. Each round tries again.
const ROUNDS: usize = 3;

/// Simple queries, because a prepared statement would stay on the server's connection.
const READ_PID: &str = "SELECT pg_backend_pid() AS pid";
const BEGIN: &str = "BEGIN";
const ROLLBACK: &str = "ROLLBACK";

/// Returns `true` if this connection keeps no session between its transactions. Opens a second
/// connection with these options, and closes it again.
pub(super) async fn lends_transactions(
    connection: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<bool, Failure> {
    let mut second = PgConnection::connect_with(options).await?;
    let own = pid(connection).await?;
    let mut lends = false;
    for _ in 0..ROUNDS {
        lends = is_lent(own, connection, &mut second).await?;
        if lends {
            break;
        }
    }
    // The connection is not needed any more, so an error while it closes does not matter.
    let _ = second.close().await;
    Ok(lends)
}

/// Returns `true` if the first connection does not keep the session of this process: it has got
/// another one, or the second connection gets its session for a transaction.
async fn is_lent(own: i32, first: &mut PgConnection, second: &mut PgConnection) -> Result<bool, Failure> {
    // The pooler has this connection back last, so it probably lends this one next.
    if pid(first).await? != own {
        return Ok(true);
    }
    if let Err(error) = sqlx::raw_sql(BEGIN).execute(&mut *second).await {
        let failure = Failure::from(error);
        // A pooler that lends single statements ends the connection.
        return if failure.is_protocol_violation() { Ok(true) } else { Err(failure) };
    }
    let beside = match pid(second).await {
        Err(failure) if failure.is_protocol_violation() => return Ok(true),
        beside => beside?,
    };
    // The first one would wait for its session, if the pooler has no other.
    let lent = beside == own || pid(first).await? != own;
    sqlx::raw_sql(ROLLBACK).execute(second).await?;
    Ok(lent)
}

/// Returns the number of the server's process behind the connection.
async fn pid(connection: &mut PgConnection) -> Result<i32, Failure> {
    // All rows, because a pooler takes its connection back at the end of the answer.
    let rows = sqlx::raw_sql(READ_PID).fetch_all(connection).await?;
    Ok(rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get("pid")?)
}
