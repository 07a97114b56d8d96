-- Called by: fast_path.rs, for a batch whose attempts are all first attempts of a step that
-- succeeded. Most attempts are.
-- Guarantees: a final row is never changed. An attempt keeps the start time of its first row. The
-- values that such rows have in common are written here, because binding them per row would cost
-- time on SQLite's thread.
INSERT OR FAIL INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT column1, column2, 1, 'step', 'succeeded', column3, column4, column5, column6, NULL, column7
FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, epoch = excluded.epoch,
    completed_at = excluded.completed_at, error = excluded.error, output = excluded.output
WHERE step_attempts.status = 'running'
