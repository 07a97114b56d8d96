//! The facts that the database has about itself.

use std::time::SystemTime;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{
    Clock, DatabaseView, MissingRights, MoveView, OpenTransactionView, PostgresView, SleepingGate, StandbyView,
    TableView, Timestamp,
};
use workflow_engine::store::{DatabaseError, Standby, SystemStore};

use super::call::read_call;
use super::error::Failure;
use super::migrate::MIGRATIONS;
use super::read::map_all;
use super::row;
use super::sql::Sql;
use super::transfer::find_record;
use super::{DATABASE, PostgresStore};

#[async_trait]
impl SystemStore for PostgresStore {
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        read_call!(self, "look at the database", connection => view(connection, &self.sql, &self.clock))
    }

    fn standby(&self) -> Option<&Standby> {
        self.standby.as_ref()
    }
}

async fn view(connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<DatabaseView, Failure> {
    let mut refused = Vec::new();
    let (mut view, mut postgres, is_standby) = server(connection, sql, clock).await?;
    if is_standby {
        let found = sql.read_standby.query().fetch_one(&mut *connection).await?;
        let lag: Option<i64> = found.try_get("lag_millis")?;
        // The clocks of two hosts may differ.
        let lag_millis = lag.map(|lag| u64::try_from(lag).unwrap_or_default());
        postgres.standby = Some(StandbyView { lag_millis, primary: found.try_get("primary_address")? });
    }
    let version = sql.read_schema_version.query().fetch_one(&mut *connection).await?;
    view.schema_level = version.try_get("version")?;
    view.known_level = MIGRATIONS.last().map_or(0, |(version, _)| *version);

    let rows = sql.read_tables.query().bind(sql.schema().to_owned()).fetch_all(&mut *connection).await;
    if let Some(rows) = allowed(rows, "the sizes of the tables", &mut refused)? {
        postgres.tables = map_all(&rows, table)?;
        view.bytes = Some(postgres.tables.iter().map(|table| table.bytes).sum());
    }
    let rows = sql.read_missing_rights.query().bind(sql.schema().to_owned()).fetch_all(&mut *connection).await;
    if let Some(rows) = allowed(rows, "the rights of the role", &mut refused)? {
        postgres.missing_rights = map_all(&rows, missing_rights)?;
    }
    let found = sql.find_oldest_transaction.query().fetch_one(&mut *connection).await;
    if let Some(found) = allowed(found, "the sessions of the server", &mut refused)? {
        postgres.hidden_sessions = number(&found, "hidden")?;
        postgres.oldest_transaction = oldest_transaction(&found)?;
    }
    let query = sql.find_sleeping_gates.query().bind(clock.fixed().map(Timestamp::as_micros));
    let rows = query.bind(i64::from(DatabaseView::TURNS)).fetch_all(&mut *connection).await;
    if let Some(rows) = allowed(rows, "the gates", &mut refused)? {
        view.sleeping_gates = map_all(&rows, sleeping_gate)?;
    }
    let record = find_record(connection, sql).await;
    view.moved = allowed(record, "the record of a move", &mut refused)?.flatten().map(MoveView::from);
    view.postgres = Some(postgres);
    view.refused = refused;
    Ok(view)
}

/// Reads the properties of the server, its clock between two looks at that of this host, and
/// whether it is a standby now.
async fn server(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
) -> Result<(DatabaseView, PostgresView, bool), Failure> {
    let before = Timestamp::from(SystemTime::now());
    let found = sql.read_server.query().fetch_one(connection).await?;
    let after = Timestamp::from(SystemTime::now());
    let ahead = DatabaseView::certain_difference(before, row::time(&found, "clock")?, after);
    let view = DatabaseView {
        kind: DATABASE.to_owned(),
        version: found.try_get("version")?,
        clock_ahead_millis: clock.fixed().is_none().then_some(ahead),
        ..DatabaseView::default()
    };
    let postgres = PostgresView {
        role: found.try_get("role")?,
        fsync: found.try_get("fsync")?,
        full_page_writes: found.try_get("full_page_writes")?,
        ..PostgresView::default()
    };
    Ok((view, postgres, found.try_get("standby")?))
}

/// Returns the answer; `None` if the server refused it to the role, after noting the part that was
/// refused.
fn allowed<T>(
    answer: Result<T, impl Into<Failure>>,
    part: &'static str,
    refused: &mut Vec<String>,
) -> Result<Option<T>, Failure> {
    match answer.map_err(Into::into) {
        Ok(answer) => Ok(Some(answer)),
        Err(failure) if failure.is_forbidden() => {
            refused.push(part.to_owned());
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn table(found: &PgRow) -> Result<TableView, Failure> {
    Ok(TableView {
        name: found.try_get("name")?,
        bytes: number(found, "bytes")?,
        live_rows: number(found, "live_rows")?,
        dead_rows: number(found, "dead_rows")?,
    })
}

fn missing_rights(found: &PgRow) -> Result<MissingRights, Failure> {
    Ok(MissingRights { table: found.try_get("name")?, rights: found.try_get("rights")? })
}

fn oldest_transaction(found: &PgRow) -> Result<Option<OpenTransactionView>, Failure> {
    let Some(pid) = found.try_get("pid")? else { return Ok(None) };
    let application = found.try_get("application")?;
    Ok(Some(OpenTransactionView { pid, application, age_millis: found.try_get("age_millis")? }))
}

fn sleeping_gate(found: &PgRow) -> Result<SleepingGate, Failure> {
    Ok(SleepingGate {
        queue: found.try_get("queue")?,
        gate: found.try_get("gate")?,
        due_since: row::time(found, "due_since")?,
    })
}

fn number(found: &PgRow, column: &str) -> Result<u64, Failure> {
    u64::try_from(found.try_get::<i64, _>(column)?).map_err(Failure::corrupt)
}
