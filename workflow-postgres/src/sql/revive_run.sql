-- Called by: retry.rs, with a run that lock_runs.sql has locked. $3 is the attempt that failed. $4
-- and $5 are a new deadline: an instant or a delay.
-- Guarantees: changes a failed run only, and once per attempt of the run.
UPDATE {schema}.workflow_runs AS r
SET status = 'pending', worker_id = NULL, attempt = r.attempt + 1, crashes = 0, lone_crashes = NULL, error = NULL, output = NULL,
    completed_at = NULL, cancel_requested_at = NULL, paused_at = NULL, deadline_at = new.deadline,
    available_at = LEAST({now}, new.deadline)
FROM {schema}.workflow_runs AS old
CROSS JOIN LATERAL (
    SELECT CASE WHEN $5::bigint IS NOT NULL THEN LEAST({now} + $5, {far_future})
                ELSE COALESCE($4::bigint, old.deadline_at) END AS deadline
) AS new
WHERE old.id = $2 AND r.id = old.id AND r.status = 'failed' AND r.attempt = $3
RETURNING r.id
