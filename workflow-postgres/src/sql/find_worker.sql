-- Called by: lease.rs, before insert_worker.sql.
-- Guarantees: returns a row if the worker is recorded. If other workers have forgotten it, lease.rs
-- learns that here (ownership.rs).
SELECT w.id FROM {schema}.workflow_workers AS w WHERE w.id = $1
