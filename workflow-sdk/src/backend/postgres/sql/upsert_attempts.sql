-- Called by: attempt.rs, with rows whose claims have passed the fence, one a (run, step key, attempt).
-- Guarantees: a final row is never changed; the time at which an attempt began is that of its first row.
INSERT INTO {schema}.step_attempts AS a
    (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
SELECT w.run_id, w.step_key, w.attempt, w.kind, w.status, w.position, w.output, w.error, w.epoch, w.started_at,
       w.completed_at
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
            $9::bigint[], $10::bigint[], $11::bigint[])
    AS w(run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
ON CONFLICT (run_id, step_key, attempt) DO UPDATE
SET kind = excluded.kind, status = excluded.status, position = excluded.position, output = excluded.output,
    error = excluded.error, epoch = excluded.epoch, completed_at = excluded.completed_at
WHERE a.status = 'running'
