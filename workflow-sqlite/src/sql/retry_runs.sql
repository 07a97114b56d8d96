-- Called by: retry.rs, with claims that have passed the fence.
-- Guarantees: the run is pending in its next attempt, and never due after its deadline.
UPDATE workflow_runs
SET status = 'pending', worker_id = NULL, attempt = attempt + 1, crashes = 0, lone_crashes = NULL, error = r.value ->> 3,
    available_at = min(max(r.value ->> 2, ?2), coalesce(deadline_at, 9223372036854775807))
FROM jsonb_each(?1) AS r
WHERE workflow_runs.id = r.value ->> 0 AND epoch = r.value ->> 1 AND +status = 'running'
