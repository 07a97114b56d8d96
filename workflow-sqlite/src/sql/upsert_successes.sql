-- Called by: fast_path.rs, for a batch whose rows are all what most are: the first attempt of a step, and a success.
-- Guarantees: those of upsert_attempts.sql. What such rows have in common stands here and need not come with each: to bind it was a
-- twelfth of the work of SQLite's thread.
INSERT OR FAIL INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT column1, column2, 1, 'step', 'succeeded', column3, column4, column5, column6, NULL, column7
FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, epoch = excluded.epoch,
    completed_at = excluded.completed_at, error = excluded.error, output = excluded.output
WHERE step_attempts.status = 'running'
