-- Called by: retry.rs, with claims that have passed the fence.
-- Guarantees: the run is pending in its next attempt, never due after its deadline, and due at once
-- if it was canceled meanwhile.
UPDATE workflow_runs
SET status = 'pending', worker_id = NULL, attempt = attempt + 1, crashes = 0, lone_crashes = NULL, error = r.value ->> 3,
    available_at = min(max(iif(cancel_requested_at IS NULL, r.value ->> 2, ?2), ?2), coalesce(deadline_at, 9223372036854775807))
FROM jsonb_each(?1) AS r
WHERE workflow_runs.id = r.value ->> 0 AND epoch = r.value ->> 1 AND +status = 'running'
