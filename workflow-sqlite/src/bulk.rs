//! Bulk operations.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{BulkId, BulkProgress, BulkRecord, BulkStatus, NewBulk, Timestamp};
use workflow_engine::store::{BulkStore, BulkTarget, DatabaseError, DatabaseErrorKind, Target};

use super::error::During;
use super::slow_path::SlowPath;
use super::{SqliteStore, row, sql, within_deadline};

const OPERATION: &str = "change a bulk operation";

impl Target for SlowPath<'_> {
    type Error = DatabaseError;
}

impl BulkTarget for SlowPath<'_> {
    async fn lock_bulks(
        &mut self,
        ids: &BTreeSet<BulkId>,
    ) -> Result<(Timestamp, HashMap<BulkId, BulkRecord>), DatabaseError> {
        let query = sqlx::query(sql::LOCK_BULKS).bind(serde_json::to_string(ids).during(OPERATION)?);
        let rows = query.fetch_all(&mut *self.connection).await.during(OPERATION)?;
        let rows = rows.iter().map(|row| bulk(row).map(|bulk| (bulk.order.id, bulk))).collect::<Result<_, _>>()?;
        Ok((self.now, rows))
    }

    async fn find_due_bulk(&mut self) -> Result<Option<BulkRecord>, DatabaseError> {
        let query = sqlx::query(sql::FIND_DUE_BULK).bind(self.now.as_micros());
        let found = query.fetch_optional(&mut *self.connection).await.during(OPERATION)?;
        found.as_ref().map(bulk).transpose()
    }

    async fn insert_bulk(&mut self, row: &BulkRecord) -> Result<(), DatabaseError> {
        let NewBulk { id, verb, query, action, payload, actor, reason, upto, matched } = &row.order;
        let columns = serde_json::json!([id, verb, query, action, payload, actor, reason, upto, matched]).to_string();
        let insert = sqlx::query(sql::INSERT_BULK).bind(columns).bind(row.created_at.as_micros());
        insert.execute(&mut *self.connection).await.during(OPERATION)?;
        Ok(())
    }

    async fn update_bulk(&mut self, id: BulkId, progress: &BulkProgress) -> Result<(), DatabaseError> {
        let update = sqlx::query(sql::UPDATE_BULK)
            .bind(id.to_string())
            .bind(progress.status.as_str())
            .bind(progress.cursor.to_string())
            .bind(progress.done)
            .bind(progress.skipped)
            .bind(progress.failed)
            .bind(serde_json::to_string(&progress.failures).during(OPERATION)?)
            .bind(progress.available_at.as_micros())
            .bind(progress.worker.map(|worker| worker.as_uuid().to_string()))
            .bind(progress.epoch)
            .bind(progress.ended_at.map(Timestamp::as_micros));
        update.execute(&mut *self.connection).await.during(OPERATION)?;
        Ok(())
    }
}

#[async_trait]
impl BulkStore for SqliteStore {
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError> {
        const OPERATION: &str = "read a bulk operation";
        within_deadline(OPERATION, async {
            let mut reader = self.database.reader().await?;
            let query = sqlx::query(sql::READ_BULK).bind(id.to_string());
            let found = query.fetch_optional(reader.connection()?).await.during(OPERATION)?;
            found.as_ref().map(bulk).transpose()
        })
        .await
    }

    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError> {
        const OPERATION: &str = "list bulk operations";
        within_deadline(OPERATION, async {
            let mut reader = self.database.reader().await?;
            let query = sqlx::query(sql::LIST_BULKS).bind(older_than.to_string()).bind(limit);
            let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
            rows.iter().map(bulk).collect()
        })
        .await
    }

    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError> {
        const OPERATION: &str = "look for bulk operations";
        within_deadline(OPERATION, async {
            let mut reader = self.database.reader().await?;
            let query = sqlx::query(sql::FIND_NEXT_BULK);
            let found = query.fetch_optional(reader.connection()?).await.during(OPERATION)?;
            let at = found.as_ref().map(|found| row::time(found, "available_at")).transpose()?;
            Ok(at.map(|at| at.since(self.database.now())))
        })
        .await
    }
}

fn bulk(found: &SqliteRow) -> Result<BulkRecord, DatabaseError> {
    let corrupt = |error: String| DatabaseError::new(DatabaseErrorKind::Corrupt, "read a bulk operation", error);
    let id: String = row::get(found, "id")?;
    let status: String = row::get(found, "status")?;
    let failures: String = row::get(found, "failures")?;
    let worker: Option<String> = row::get(found, "worker_id")?;
    let order = NewBulk {
        id: id.parse().map_err(|error: uuid::Error| corrupt(error.to_string()))?,
        verb: row::get(found, "verb")?,
        query: row::get(found, "query")?,
        action: row::get(found, "action")?,
        payload: row::get(found, "payload")?,
        actor: row::get(found, "actor")?,
        reason: row::get(found, "reason")?,
        upto: row::id(found, "upto")?,
        matched: row::get(found, "matched")?,
    };
    let progress = BulkProgress {
        status: BulkStatus::of_word(&status).ok_or_else(|| corrupt(format!("unknown status {status:?}")))?,
        cursor: row::id(found, "cursor")?,
        done: row::get(found, "done")?,
        skipped: row::get(found, "skipped")?,
        failed: row::get(found, "failed")?,
        failures: serde_json::from_str(&failures).map_err(|error| corrupt(error.to_string()))?,
        available_at: row::time(found, "available_at")?,
        worker: worker.as_deref().map(row::worker_id).transpose()?,
        epoch: row::get(found, "epoch")?,
        ended_at: row::maybe_time(found, "ended_at")?,
    };
    Ok(BulkRecord { order, created_at: row::time(found, "created_at")?, progress })
}
