-- Called by: bulk.rs.
-- Guarantees: returns the row of one bulk operation, or no row.
SELECT b.id, b.verb, b.query, b.action, b.payload, b.actor, b.reason, b.upto, b.matched, b.cursor, b.done, b.skipped,
       b.failed, b.failures, b.status, b.available_at, b.worker_id, b.epoch, b.created_at, b.ended_at
FROM {schema}.workflow_bulk AS b
WHERE b.id = $1
