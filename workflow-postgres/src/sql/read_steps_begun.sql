-- Called by: history_page.rs.
-- Guarantees: all rows of at most $3 steps, without the first $2, in the order in which the steps
-- first began. Reads the keys and times of all rows of the run, but payloads only of these steps,
-- and returns none of more than $4 bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       octet_length(a.output)::bigint AS output_bytes, octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN octet_length(a.output) <= $4::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $4::bigint THEN a.error END AS error
FROM (
    SELECT r.step_key, min(r.started_at) AS began_at
    FROM {schema}.step_attempts AS r
    WHERE r.run_id = $1 AND r.kind NOT IN ('patch', 'published', 'emitted')
    GROUP BY r.step_key
    ORDER BY began_at, r.step_key
    LIMIT $3 OFFSET $2
) AS step
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.step_attempts AS f WHERE f.run_id = $1 AND f.step_key = step.step_key OFFSET 0
) AS a
ORDER BY step.began_at, a.step_key, a.attempt
