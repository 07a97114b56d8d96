-- Called by: lease.rs, for a worker whose lock is free.
-- Guarantees: the claims of the worker are due now. The runs stay running, so that the next claim
-- counts a crash. Reads the index of running runs.
UPDATE workflow_runs
SET available_at = ?2
WHERE id IN (
    SELECT id FROM workflow_runs INDEXED BY workflow_runs_running
    WHERE status = 'running' AND worker_id = ?1 AND available_at > ?2)
