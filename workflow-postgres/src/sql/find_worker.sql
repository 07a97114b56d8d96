-- Called by: lease.rs, before insert_worker.sql.
-- Guarantees: a worker that is recorded has a row; of one that others have forgotten, lease.rs then knows (worker_lock.rs).
SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = $1
