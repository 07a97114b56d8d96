-- Called by: finish.rs, with claims that have passed the fence; fast_path.rs, which checks the
-- fence in the same transaction.
-- Guarantees: a run ends once, and only by the claim that holds it. Its end is not before its
-- beginning, even if the clock of the host was set back.
UPDATE OR FAIL workflow_runs
SET status = e.value ->> 2, output = e.value ->> 3, error = e.value ->> 4, worker_id = NULL, paused_at = NULL,
    completed_at = max(?, created_at, coalesce(started_at, 0))
FROM jsonb_each(?) AS e
WHERE workflow_runs.id = e.value ->> 0 AND epoch = e.value ->> 1 AND +status = 'running'
