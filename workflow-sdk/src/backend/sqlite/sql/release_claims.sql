-- Called by: lease.rs, for a worker whose lock nobody holds.
-- Guarantees: its claims are due now. They stay running, so that the next claim counts a crash.
UPDATE workflow_runs
SET available_at = ?2
WHERE worker_id = ?1 AND status = 'running' AND available_at > ?2
