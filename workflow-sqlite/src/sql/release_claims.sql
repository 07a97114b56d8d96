-- Called by: lease.rs, for a worker whose lock is free, in one transaction with delete_worker.sql.
-- Guarantees: the runs of the worker are due now, and each has one crash more. A run that it drove
-- alone has one lone crash more. Reads the index of running runs.
UPDATE workflow_runs
SET available_at = min(available_at, ?2), crashes = crashes + 1,
    lone_crashes = iif(alone_epoch = epoch, coalesce(lone_crashes, 0) + 1, lone_crashes)
WHERE id IN (
    SELECT id FROM workflow_runs INDEXED BY workflow_runs_running
    WHERE status = 'running' AND worker_id = ?1)
