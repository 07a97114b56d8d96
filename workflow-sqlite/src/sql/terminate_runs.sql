-- Called by: ownerless.rs.
-- Guarantees: a run that has not ended is canceled now. A claim on it is lost, so its worker writes
-- nothing more.
UPDATE workflow_runs
SET epoch = epoch + (status = 'running'), status = 'canceled', worker_id = NULL, error = NULL, paused_at = NULL,
    completed_at = max(?2, created_at, coalesce(started_at, 0)),
    cancel_requested_at = coalesce(cancel_requested_at, ?2)
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'parked')
