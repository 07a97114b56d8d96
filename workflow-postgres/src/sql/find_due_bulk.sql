-- Called by: bulk.rs, in a batch that claims a bulk operation.
-- Guarantees: locks the operation that is due for the longest time and returns it, or no row. Skips
-- operations that another transaction has locked.
SELECT b.id, b.verb, b.query, b.action, b.payload, b.actor, b.reason, b.upto, b.matched, b.cursor, b.done, b.skipped,
       b.failed, b.failures, b.status, b.available_at, b.worker_id, b.epoch, b.created_at, b.ended_at
FROM {schema}.workflow_bulk AS b
WHERE b.status = 'running' AND b.available_at <= {now}
ORDER BY b.available_at, b.id
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED
