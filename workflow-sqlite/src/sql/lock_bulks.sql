-- Called by: bulk.rs, first of all in a batch that changes these bulk operations.
-- Guarantees: returns the row of each that exists. The transaction holds the write lock.
SELECT id, verb, query, action, payload, actor, reason, upto, matched, cursor, done, skipped,
       failed, failures, status, available_at, worker_id, epoch, created_at, ended_at
FROM workflow_bulk
WHERE id IN (SELECT value FROM json_each(?1))
