-- Called by: finish.rs, with claims that have passed the fence.
-- Guarantees: a run ends once, and only by the claim that holds it.
UPDATE workflow_runs
SET status = e.value ->> 2, output = e.value ->> 3, error = e.value ->> 4, completed_at = ?2, worker_id = NULL,
    paused_at = NULL
FROM jsonb_each(?1) AS e
WHERE workflow_runs.id = e.value ->> 0 AND epoch = e.value ->> 1 AND status = 'running'
