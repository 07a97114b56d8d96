-- Called by: bulk.rs, first of all in a batch that changes these bulk operations.
-- Guarantees: locks the operations in the order of their ids and returns their rows, which hold
-- until the commit, and the time. The time alone if none exists.
SELECT {now} AS now, b.id, b.verb, b.query, b.action, b.payload, b.actor, b.reason, b.upto, b.matched, b.cursor, b.done, b.skipped,
       b.failed, b.failures, b.status, b.available_at, b.worker_id, b.epoch, b.created_at, b.ended_at
FROM (VALUES (1)) AS one (one) LEFT JOIN LATERAL (
    SELECT b.* FROM {schema}.workflow_bulk AS b WHERE b.id = ANY($2) ORDER BY b.id FOR NO KEY UPDATE
) AS b ON true
