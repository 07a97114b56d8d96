-- Called by: retry.rs. ?2 is the attempt that failed, ?3 the time, ?4 a new deadline.
-- Guarantees: changes a failed run only, and once per attempt of the run.
UPDATE workflow_runs
SET status = 'pending', worker_id = NULL, attempt = attempt + 1, crashes = 0, lone_crashes = NULL, error = NULL, output = NULL,
    completed_at = NULL, cancel_requested_at = NULL, paused_at = NULL, deadline_at = coalesce(?4, deadline_at),
    available_at = min(?3, coalesce(?4, deadline_at, ?3))
WHERE id = ?1 AND status = 'failed' AND attempt = ?2
RETURNING id
