-- Called by: fence.rs, on the long way of a batch. $1 are the workers of the process.
-- Guarantees: until the commit nobody takes a running run away from those that it names (worker_lock.rs).
SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = ANY ($1::uuid[])
ORDER BY w.id
FOR UPDATE
