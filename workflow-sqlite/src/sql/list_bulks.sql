-- Called by: bulk.rs.
-- Guarantees: returns at most ?2 bulk operations with ids before ?1, the newest first, without
-- their payloads.
SELECT id, verb, query, action, NULL AS payload, actor, reason, upto, matched, cursor, done, skipped,
       failed, failures, status, available_at, worker_id, epoch, created_at, ended_at
FROM workflow_bulk
WHERE id < ?1
ORDER BY id DESC
LIMIT +?2
