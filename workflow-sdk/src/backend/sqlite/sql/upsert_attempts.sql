-- Called by: attempt.rs, with rows whose claims have passed the fence; plain.rs, which asks the fence beside it.
-- Guarantees: a final row is never changed; the time at which an attempt began is that of its first row.
INSERT INTO step_attempts
    (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, error, output)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10
FROM jsonb_each(?)
WHERE true
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, epoch = excluded.epoch,
    completed_at = excluded.completed_at, error = excluded.error, output = excluded.output
WHERE step_attempts.status = 'running'
