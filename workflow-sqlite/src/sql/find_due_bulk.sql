-- Called by: bulk.rs, in a batch that claims a bulk operation. ?1 is the time.
-- Guarantees: returns the operation that is due for the longest time, or no row.
SELECT id, verb, query, action, payload, actor, reason, upto, matched, cursor, done, skipped,
       failed, failures, status, available_at, worker_id, epoch, created_at, ended_at
FROM workflow_bulk
WHERE status = 'running' AND available_at <= ?1
ORDER BY available_at, id
LIMIT 1
