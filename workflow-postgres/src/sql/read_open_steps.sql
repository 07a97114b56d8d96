-- Called by: history_page.rs. $2 and $3 are numbers.
-- Guarantees: at most $2 rows of steps without an outcome, and the last outcome, by step key and
-- attempt. Returns no payload of more than $4 bytes. Reads the last entry and the first $3 attempts
-- without an outcome of the index by position, and one row of the step of each. is_cut: there are
-- more attempts without an outcome.
WITH rest AS MATERIALIZED (
    SELECT r.step_key, r.attempt, r.kind
    FROM {schema}.step_attempts AS r
    WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position IS NULL
    ORDER BY r.position, r.step_key, r.attempt
    LIMIT $3::bigint + 1
)
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       octet_length(a.output)::bigint AS output_bytes, octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN octet_length(a.output) <= $4::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $4::bigint THEN a.error END AS error,
       (SELECT count(*) FROM rest) > $3::bigint AS is_cut
FROM (
    SELECT f.step_key, f.attempt
    FROM (
        (SELECT r.step_key, r.attempt
         FROM {schema}.step_attempts AS r
         WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position >= 0
         ORDER BY r.position DESC
         LIMIT 1)
        UNION ALL
        SELECT u.step_key, u.attempt
        FROM rest AS u
        WHERE u.kind NOT IN ('patch', 'published')
          AND (SELECT b.position FROM {schema}.step_attempts AS b
               WHERE b.run_id = $1 AND b.step_key = u.step_key
               ORDER BY b.attempt DESC LIMIT 1) IS NULL
    ) AS f
    ORDER BY f.step_key, f.attempt
    LIMIT $2
) AS found
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.step_attempts AS f
    WHERE f.run_id = $1 AND f.step_key = found.step_key AND f.attempt = found.attempt
    LIMIT 1
) AS a
ORDER BY a.step_key, a.attempt
