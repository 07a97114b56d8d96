-- Called by: wait.rs. $1 has the ids of runs, $2 and $3 are numbers.
-- Guarantees: returns at most $3 rows per run of steps that a parked run waits for, by step key. Of
-- each run it reads the first $2 rows by the primary key, and looks once for a later row of a step.
-- A long error is left out, so that its step does not count.
SELECT asked.id, found.kind, found.step_key, found.attempt, found.error
FROM (SELECT unnest($1::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (
    SELECT first.kind, first.step_key, first.attempt, first.error
    FROM (
        SELECT s.run_id, s.kind, s.step_key, s.attempt, s.status, s.position,
               CASE WHEN s.status <> 'failed' THEN NULL WHEN octet_length(s.error) <= {error_bytes} THEN s.error ELSE '' END AS error
        FROM {schema}.step_attempts AS s
        WHERE s.run_id = asked.id
        ORDER BY s.step_key, s.attempt
        LIMIT $2
    ) AS first
    WHERE first.position IS NULL
      AND ((first.status = 'running' AND first.kind IN ('signal', 'approval', 'event', 'child'))
        OR (first.status = 'failed' AND first.kind IN ('step', 'transaction', 'compensation')))
      AND NOT EXISTS (
          SELECT FROM {schema}.step_attempts AS b
          WHERE b.run_id = first.run_id AND b.step_key = first.step_key AND b.attempt > first.attempt
      )
    ORDER BY first.step_key
    LIMIT $3
) AS found
