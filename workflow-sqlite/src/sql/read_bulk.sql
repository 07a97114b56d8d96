-- Called by: bulk.rs.
-- Guarantees: returns the row of one bulk operation, or no row.
SELECT id, verb, query, action, payload, actor, reason, upto, matched, cursor, done, skipped,
       failed, failures, status, available_at, worker_id, epoch, created_at, ended_at
FROM workflow_bulk
WHERE id = ?1
