-- Called by: queue.rs.
-- Guarantees: every queue with a record, in the order of the names.
SELECT q.queue, q.declared, q.overridden, q.paused_at, q.pause_reason, q.used_until,
    EXISTS (SELECT 1 FROM workflow_gates AS g WHERE g.queue = q.queue) AS has_gates
FROM workflow_queues AS q
ORDER BY q.queue
