-- Called by: parts.rs, with rows whose claims hold, one per (run, step key, attempt). The table may
-- have rows of the first $12.
-- Guarantees: a final row is never changed, nor the time at which an attempt began. The statement
-- fails if the table has one of the other rows, or if another transaction inserts one at the same
-- moment. ON CONFLICT would spare that, but it writes a second WAL record per row.
recorded AS (
    INSERT INTO {schema}.step_attempts
        (run_id, step_key, attempt, kind, status, position, output, error, epoch, started_at, completed_at)
    SELECT w.run_id, w.step_key, w.attempt, w.kind, w.status, w.position, w.output, w.error, w.epoch, w.started_at,
           w.completed_at
    FROM (
        SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($3::bigint[]) AS attempt,
               unnest($4::text[]) AS kind, unnest($5::text[]) AS status, unnest($6::bigint[]) AS position,
               unnest($7::text[]) AS output, unnest($8::text[]) AS error, unnest($9::bigint[]) AS epoch,
               unnest($10::bigint[]) AS started_at, unnest($11::bigint[]) AS completed_at,
               generate_subscripts($1::uuid[], 1) AS number
    ) AS w
    WHERE {after}
      AND (w.number > $12::integer
           OR (SELECT a.epoch FROM {schema}.step_attempts AS a
               WHERE a.run_id = w.run_id AND a.step_key = w.step_key AND a.attempt = w.attempt) IS NULL)
    {returning}
), updated AS (
    UPDATE {schema}.step_attempts AS a
    SET kind = w.kind, status = w.status, position = w.position, output = w.output, error = w.error, epoch = w.epoch,
        completed_at = w.completed_at
    FROM (
        SELECT unnest(($1::uuid[])[1:$12]) AS run_id, unnest(($2::text[])[1:$12]) AS step_key,
               unnest(($3::bigint[])[1:$12]) AS attempt, unnest(($4::text[])[1:$12]) AS kind,
               unnest(($5::text[])[1:$12]) AS status, unnest(($6::bigint[])[1:$12]) AS position,
               unnest(($7::text[])[1:$12]) AS output, unnest(($8::text[])[1:$12]) AS error,
               unnest(($9::bigint[])[1:$12]) AS epoch, unnest(($11::bigint[])[1:$12]) AS completed_at
    ) AS w
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.step_attempts AS o
        WHERE o.run_id = w.run_id AND o.step_key = w.step_key AND o.attempt = w.attempt
        LIMIT 1
    ) AS found
    WHERE {after} AND a.ctid = found.place AND a.status = 'running'
    {returning}
)
