-- Called by: queue.rs, before a claim counts the runs of limited queues. $1 are queues.
-- Guarantees: the records of these queues are locked until the commit, so that no other claim
-- counts the same runs. Leaves out a record that another transaction has locked, and waits for
-- nothing.
SELECT q.queue, q.declared, q.overridden, q.paused_at, q.pause_reason, q.used_until, false AS has_gates
FROM {schema}.workflow_queues AS q
WHERE q.queue = ANY ($1::text[])
ORDER BY q.queue
FOR NO KEY UPDATE SKIP LOCKED
