-- Called by: parts.rs instead of record_attempts.sql, for a batch whose rows are all what most rows
-- are: new, the first attempt of a step, and a success.
-- Guarantees: see record_attempts.sql. The values that such rows have in common stand here, so that
-- they are not sent and read with each row.
recorded AS (
    INSERT INTO {schema}.step_attempts
        (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
    SELECT w.run_id, w.step_key, 1, 'step', 'succeeded', w.position, w.output, NULL, w.epoch, w.started_at,
           w.completed_at
    FROM (
        SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($3::bigint[]) AS position,
               unnest($4::text[]) AS output, unnest($5::bigint[]) AS epoch, unnest($6::bigint[]) AS started_at,
               unnest($7::bigint[]) AS completed_at
    ) AS w
    WHERE {after}
)
