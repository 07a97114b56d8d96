//! Audit rows.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

use workflow_engine::model::{AuditId, AuditRow, NewAudit, Timestamp};
use workflow_engine::store::{AuditList, DatabaseError, DatabaseErrorKind, InsertedAudit, ListedAudits};

use super::database::Database;
use super::error::During;
use super::{row, sql};

/// Inserts rows, except those whose ids exist.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    rows: &[InsertedAudit<'_>],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "insert audit rows";
    let columns = |InsertedAudit { order, outcome }: &InsertedAudit<'_>| {
        let NewAudit { id, actor, verb, target, reason, arguments } = *order;
        serde_json::json!([id, actor, verb, target, reason, arguments, outcome])
    };
    let rows = serde_json::to_string(&rows.iter().map(columns).collect::<Vec<_>>()).during(OPERATION)?;
    let query = sqlx::query(sql::INSERT_AUDITS).bind(rows).bind(now.as_micros());
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// See [`Store::audits`](workflow_engine::store::Store::audits).
pub(super) async fn list(database: &Database, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
    const OPERATION: &str = "list audit rows";
    let (find_end, read) = match list.target {
        None => (sql::FIND_AUDITS_END, sql::LIST_AUDITS),
        Some(_) => (sql::FIND_AUDITS_END_OF_TARGET, sql::LIST_AUDITS_OF_TARGET),
    };
    let mut reader = database.reader().await?;
    let connection = reader.connection()?;
    let older_than = list.older_than.to_string();
    let query = sqlx::query(find_end).bind(&older_than).bind(list.budget).bind(&list.target);
    let end = query.fetch_optional(&mut *connection).await.during(OPERATION)?;
    let end = end.as_ref().map(|row| row::get::<String>(row, "id")).transpose()?;
    let query = sqlx::query(read)
        .bind(end.clone().unwrap_or_default())
        .bind(older_than)
        .bind(&list.verb)
        .bind(&list.actor)
        .bind(i64::from(list.limit) + 1)
        .bind(&list.target);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    let rows = rows.iter().map(audit_row).collect::<Result<_, _>>()?;
    Ok(ListedAudits::of(list, rows, end.as_deref().map(id).transpose()?))
}

fn id(text: &str) -> Result<AuditId, DatabaseError> {
    let uuid: Result<Uuid, _> = text.parse();
    uuid.map(AuditId::from).map_err(|error| DatabaseError::new(DatabaseErrorKind::Corrupt, "read an audit row", error))
}

fn audit_row(row: &SqliteRow) -> Result<AuditRow, DatabaseError> {
    let order = NewAudit {
        id: id(&row::get::<String>(row, "id")?)?,
        actor: row::get(row, "actor")?,
        verb: row::get(row, "verb")?,
        target: row::get(row, "target")?,
        reason: row::get(row, "reason")?,
        arguments: row::get(row, "arguments")?,
    };
    Ok(AuditRow { order, at: row::time(row, "at")?, outcome: row::get(row, "outcome")? })
}
