-- Called by: continue_as_new.rs, with claims that have passed the fence, after delete_steps.sql.
-- Guarantees: the next generation of a run begins once, with its input, and only under the claim
-- that holds.
UPDATE workflow_runs
SET status = 'pending', worker_id = NULL, generation = generation + 1, attempt = 1, available_at = ?2, started_at = NULL,
    crashes = 0, lone_crashes = NULL, error = NULL, input = c.value ->> 2
FROM jsonb_each(?1) AS c
WHERE workflow_runs.id = c.value ->> 0 AND epoch = c.value ->> 1 AND +status = 'running'
