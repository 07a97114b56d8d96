//! Bulk operations.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{
    BulkId, BulkProgress, BulkRecord, BulkStatus, Clock, NewBulk, RunId, Timestamp, WorkerId,
};
use workflow_engine::store::{BulkStore, BulkTarget, DatabaseError, Target};

use super::call::read_call;
use super::error::Failure;
use super::slow_path::SlowPath;
use super::sql::Sql;
use super::{PostgresStore, row};

impl Target for SlowPath<'_> {
    type Error = Failure;
}

impl BulkTarget for SlowPath<'_> {
    async fn lock_bulks(
        &mut self,
        ids: &BTreeSet<BulkId>,
    ) -> Result<(Timestamp, HashMap<BulkId, BulkRecord>), Failure> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let query = self.sql.lock_bulks.query().bind(self.clock.fixed().map(Timestamp::as_micros)).bind(ids);
        let rows = query.fetch_all(&mut *self.connection).await?;
        let now = rows.first().map(|found| row::time(found, "now")).transpose()?;
        let now = now.ok_or_else(|| Failure::corrupt("the lock of bulk operations returned no row"))?;
        let is_bulk = |row: &&PgRow| !matches!(row.try_get::<Option<Uuid>, _>("id"), Ok(None));
        let rows = rows.iter().filter(is_bulk).map(|row| bulk(row).map(|bulk| (bulk.order.id, bulk)));
        Ok((now, rows.collect::<Result<_, _>>()?))
    }

    async fn find_due_bulk(&mut self) -> Result<Option<BulkRecord>, Failure> {
        let query = self.sql.find_due_bulk.query().bind(self.clock.fixed().map(Timestamp::as_micros));
        query.fetch_optional(&mut *self.connection).await?.as_ref().map(bulk).transpose()
    }

    async fn insert_bulk(&mut self, row: &BulkRecord) -> Result<(), Failure> {
        let NewBulk { id, verb, query, action, payload, actor, reason, upto, matched } = &row.order;
        let insert = self.sql.insert_bulk.query().bind(id.as_uuid()).bind(verb).bind(query).bind(action);
        let insert = insert.bind(payload).bind(actor).bind(reason).bind(upto.as_uuid()).bind(matched);
        insert.bind(row.created_at.as_micros()).execute(&mut *self.connection).await?;
        Ok(())
    }

    async fn update_bulk(&mut self, id: BulkId, progress: &BulkProgress) -> Result<(), Failure> {
        let failures =
            serde_json::to_string(&progress.failures).map_err(|error| Failure::corrupt(error.to_string()))?;
        let update = self
            .sql
            .update_bulk
            .query()
            .bind(id.as_uuid())
            .bind(progress.status.as_str())
            .bind(progress.cursor.as_uuid())
            .bind(progress.done)
            .bind(progress.skipped)
            .bind(progress.failed)
            .bind(failures)
            .bind(progress.available_at.as_micros())
            .bind(progress.worker.map(WorkerId::as_uuid))
            .bind(progress.epoch)
            .bind(progress.ended_at.map(Timestamp::as_micros));
        update.execute(&mut *self.connection).await?;
        Ok(())
    }
}

#[async_trait]
impl BulkStore for PostgresStore {
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError> {
        read_call!(self, "read a bulk operation", connection => read(connection, &self.sql, id))
    }

    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError> {
        read_call!(self, "list bulk operations", connection => list(connection, &self.sql, older_than, limit))
    }

    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError> {
        read_call!(self, "look for bulk operations", connection => next(connection, &self.sql, &self.clock))
    }
}

async fn read(connection: &mut PgConnection, sql: &Sql, id: BulkId) -> Result<Option<BulkRecord>, Failure> {
    let found = sql.read_bulk.query().bind(id.as_uuid()).fetch_optional(connection).await?;
    found.as_ref().map(bulk).transpose()
}

async fn list(
    connection: &mut PgConnection,
    sql: &Sql,
    older_than: BulkId,
    limit: u32,
) -> Result<Vec<BulkRecord>, Failure> {
    let query = sql.list_bulks.query().bind(older_than.as_uuid()).bind(i64::from(limit));
    query.fetch_all(connection).await?.iter().map(bulk).collect()
}

async fn next(connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<Option<Duration>, Failure> {
    let query = sql.find_next_bulk.query().bind(clock.fixed().map(Timestamp::as_micros));
    let Some(found) = query.fetch_optional(connection).await? else { return Ok(None) };
    Ok(Some(row::time(&found, "available_at")?.since(row::time(&found, "now")?)))
}

fn bulk(found: &PgRow) -> Result<BulkRecord, Failure> {
    let run = |column| Ok::<_, Failure>(RunId::from(found.try_get::<Uuid, _>(column)?));
    let status: &str = found.try_get("status")?;
    let failures: &str = found.try_get("failures")?;
    let order = NewBulk {
        id: found.try_get::<Uuid, _>("id")?.into(),
        verb: found.try_get("verb")?,
        query: found.try_get("query")?,
        action: found.try_get("action")?,
        payload: found.try_get("payload")?,
        actor: found.try_get("actor")?,
        reason: found.try_get("reason")?,
        upto: run("upto")?,
        matched: found.try_get("matched")?,
    };
    let progress = BulkProgress {
        status: BulkStatus::of_word(status)
            .ok_or_else(|| Failure::corrupt(format!("a bulk operation has the unknown status {status:?}")))?,
        cursor: run("cursor")?,
        done: found.try_get("done")?,
        skipped: found.try_get("skipped")?,
        failed: found.try_get("failed")?,
        failures: serde_json::from_str(failures).map_err(|error| Failure::corrupt(error.to_string()))?,
        available_at: row::time(found, "available_at")?,
        worker: found.try_get::<Option<Uuid>, _>("worker_id")?.map(WorkerId::from),
        epoch: found.try_get("epoch")?,
        ended_at: row::time_if_any(found, "ended_at")?,
    };
    Ok(BulkRecord { order, created_at: row::time(found, "created_at")?, progress })
}
