-- Called by: attempt.rs, with rows whose claims have passed the fence, one a (run, step key, attempt).
-- Guarantees: a row that is there stays as it is. How many are inserted is nearly always all. If another transaction
-- records one of them at the same moment, the statement fails and is tried again: ON CONFLICT would spare that, but writes
-- a second WAL record for every row.
INSERT INTO {schema}.step_attempts
    (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
SELECT w.run_id, w.step_key, w.attempt, w.kind, w.status, w.position, w.output, w.error, w.epoch, w.started_at,
       w.completed_at
FROM (
    SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($6::bigint[]) AS position,
           unnest($7::text[]) AS output, unnest($9::bigint[]) AS epoch, unnest($10::bigint[]) AS started_at,
           unnest($11::bigint[]) AS completed_at,
           unnest($3::bigint[]) AS attempt, unnest($4::text[]) AS kind, unnest($5::text[]) AS status,
           unnest($8::text[]) AS error
) AS w
WHERE (SELECT a.epoch FROM {schema}.step_attempts AS a
       WHERE a.run_id = w.run_id AND a.step_key = w.step_key AND a.attempt = w.attempt) IS NULL
