//! Audit rows.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{AuditId, AuditRow, Clock, NewAudit, Timestamp};
use workflow_engine::store::{AuditList, InsertedAudit, ListedAudits};

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Inserts rows, except those whose ids exist.
pub(super) async fn insert(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    rows: &[InsertedAudit<'_>],
) -> Result<(), Failure> {
    let query = sql
        .insert_audits
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(rows.iter().map(|row| row.order.id.as_uuid()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.order.actor.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.order.verb.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.order.target.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.order.reason.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.order.arguments.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.outcome.clone()).collect::<Vec<_>>());
    query.execute(connection).await?;
    Ok(())
}

/// See [`Store::audits`](workflow_engine::store::Store::audits).
pub(super) async fn list(connection: &mut PgConnection, sql: &Sql, list: &AuditList) -> Result<ListedAudits, Failure> {
    let older_than = list.older_than.as_uuid();
    let find_end = match &list.target {
        None => sql.find_audits_end.query().bind(older_than).bind(i64::from(list.budget)),
        Some(target) => {
            sql.find_audits_end_of_target.query().bind(older_than).bind(i64::from(list.budget)).bind(target)
        }
    };
    let end = find_end.fetch_optional(&mut *connection).await?;
    let end = end.as_ref().map(id).transpose()?;
    let statement = if list.target.is_some() { &sql.list_audits_of_target } else { &sql.list_audits };
    let mut query = statement
        .query()
        .bind(end.map_or(Uuid::nil(), AuditId::as_uuid))
        .bind(older_than)
        .bind(&list.verb)
        .bind(&list.actor)
        .bind(i64::from(list.limit) + 1);
    if let Some(target) = &list.target {
        query = query.bind(target);
    }
    let rows = query.fetch_all(connection).await?;
    Ok(ListedAudits::of(list, rows.iter().map(audit_row).collect::<Result<_, _>>()?, end))
}

fn id(row: &PgRow) -> Result<AuditId, Failure> {
    Ok(row.try_get::<Uuid, _>("id")?.into())
}

fn audit_row(row: &PgRow) -> Result<AuditRow, Failure> {
    let order = NewAudit {
        id: id(row)?,
        actor: row.try_get("actor")?,
        verb: row.try_get("verb")?,
        target: row.try_get("target")?,
        reason: row.try_get("reason")?,
        arguments: row.try_get("arguments")?,
    };
    Ok(AuditRow { order, at: row::time(row, "at")?, outcome: row.try_get("outcome")? })
}
