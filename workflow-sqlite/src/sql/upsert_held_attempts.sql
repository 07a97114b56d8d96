-- Called by: attempt.rs, for a single attempt on the fast path, whose claim was not checked.
-- Guarantees: writes only under a claim that holds. A final row is never changed. An attempt keeps
-- the start time of its first row.
INSERT INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT v.*
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v CROSS JOIN workflow_runs AS r
WHERE r.id = v.column1 AND r.epoch = v.column7 AND r.status = 'running'
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, epoch = excluded.epoch,
    completed_at = excluded.completed_at, error = excluded.error, output = excluded.output
WHERE step_attempts.status = 'running'
