-- Called by: retry.rs, in the transaction that gives the runs another attempt. $1 and $2: run and
-- step key.
-- Guarantees: changes final failures only: each becomes a failed attempt that another one follows.
UPDATE {schema}.step_attempts AS a
SET position = NULL
FROM unnest($1::uuid[], $2::text[]) AS s(run_id, step_key)
CROSS JOIN LATERAL (
    SELECT o.ctid AS place FROM {schema}.step_attempts AS o
    WHERE o.run_id = s.run_id AND o.step_key = s.step_key
    OFFSET 0
) AS recorded
WHERE a.ctid = recorded.place AND a.status = 'failed' AND a.position IS NOT NULL
