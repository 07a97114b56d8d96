-- Called by: attempt.rs, for a lone attempt, as a transaction of its own: no fence has asked about its claim.
-- Guarantees: locks the run until its commit, and writes only if the claim holds. A row that is there stays as it is. OFFSET
-- keeps the question after the status out of the search: the index of running runs would be read whole for it.
INSERT INTO {schema}.step_attempts
    (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
SELECT w.run_id, w.step_key, w.attempt, w.kind, w.status, w.position, w.output, w.error, w.epoch, w.started_at,
       w.completed_at
FROM (
    SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($3::bigint[]) AS attempt,
           unnest($4::text[]) AS kind, unnest($5::text[]) AS status, unnest($6::bigint[]) AS position,
           unnest($7::text[]) AS output, unnest($8::text[]) AS error, unnest($9::bigint[]) AS epoch,
           unnest($10::bigint[]) AS started_at, unnest($11::bigint[]) AS completed_at
) AS w
CROSS JOIN LATERAL (
    SELECT r.epoch, r.status FROM {schema}.workflow_runs AS r WHERE r.id = w.run_id OFFSET 0 FOR NO KEY UPDATE
) AS held
WHERE held.epoch = w.epoch AND held.status = 'running'
  AND (SELECT a.epoch FROM {schema}.step_attempts AS a
       WHERE a.run_id = w.run_id AND a.step_key = w.step_key AND a.attempt = w.attempt) IS NULL
