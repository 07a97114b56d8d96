-- Called by: settle.rs.
-- Guarantees: a run that no worker holds ends now; of another the worker is asked, and its lease stays as it is.
-- A pause ends, so that a worker can do what the cancel asks for.
UPDATE workflow_runs
SET cancel_requested_at = coalesce(cancel_requested_at, ?2),
    paused_at = NULL,
    wakes = wakes + (status = 'running'),
    completed_at = CASE WHEN status = 'running' THEN NULL ELSE ?2 END,
    error = CASE WHEN status = 'running' THEN error ELSE NULL END,
    status = CASE WHEN status = 'running' THEN 'running' ELSE 'canceled' END
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'parked')
