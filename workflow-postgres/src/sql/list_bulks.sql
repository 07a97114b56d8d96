-- Called by: bulk.rs.
-- Guarantees: returns at most $2 bulk operations with ids before $1, the newest first, without
-- their payloads.
SELECT b.id, b.verb, b.query, b.action, NULL AS payload, b.actor, b.reason, b.upto, b.matched, b.cursor, b.done, b.skipped,
       b.failed, b.failures, b.status, b.available_at, b.worker_id, b.epoch, b.created_at, b.ended_at
FROM {schema}.workflow_bulk AS b
WHERE b.id < $1
ORDER BY b.id DESC
LIMIT $2
