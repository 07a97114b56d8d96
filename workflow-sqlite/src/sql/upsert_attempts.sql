-- Called by: attempt.rs, with rows whose claims have passed the fence; fast_path.rs, which checks
-- the fence in the same transaction.
-- Guarantees: a final row is never changed. An attempt keeps the start time of its first row.
INSERT OR FAIL INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, epoch = excluded.epoch,
    completed_at = excluded.completed_at, error = excluded.error, output = excluded.output
WHERE step_attempts.status = 'running'
