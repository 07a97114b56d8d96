-- Called by: history_page.rs. $2 is a position, $3-$5 are numbers.
-- Guarantees: the last $4 attempts of each of at most $3 steps, without a payload of more than $6
-- bytes: of the steps with the first outcomes behind the position, in the order of their outcomes,
-- and, if these are fewer, of steps without an outcome, which are numbered by step key from the
-- last position on. Reads at most $3 entries of the index by position, the first $5 attempts
-- without an outcome if it looks for these steps, one row of the step of each, and the attempts
-- that it returns. is_cut: there are more attempts without an outcome.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       octet_length(a.output)::bigint AS output_bytes, octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN octet_length(a.output) <= $6::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $6::bigint THEN a.error END AS error,
       step.is_cut
FROM (
    WITH outcome AS MATERIALIZED (
        SELECT r.position, r.step_key
        FROM {schema}.step_attempts AS r
        WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position > $2::bigint
        ORDER BY r.position, r.step_key, r.attempt
        LIMIT $3
    ), rest AS MATERIALIZED (
        SELECT r.step_key, r.attempt, r.kind
        FROM {schema}.step_attempts AS r
        WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position IS NULL
          AND (SELECT count(*) FROM outcome) < $3::bigint
        ORDER BY r.position, r.step_key, r.attempt
        LIMIT $5::bigint + 1
    ), begun AS (
        SELECT k.step_key, row_number() OVER (ORDER BY k.step_key) AS number
        FROM (SELECT DISTINCT u.step_key FROM rest AS u WHERE u.kind NOT IN ('patch', 'published')) AS k
        WHERE (SELECT b.position FROM {schema}.step_attempts AS b
               WHERE b.run_id = $1 AND b.step_key = k.step_key
               ORDER BY b.attempt DESC LIMIT 1) IS NULL
    )
    SELECT f.position, f.step_key, (SELECT count(*) FROM rest) > $5::bigint AS is_cut
    FROM (
        SELECT o.position, o.step_key FROM outcome AS o
        UNION ALL
        SELECT NULL::bigint, b.step_key
        FROM begun AS b
        WHERE b.number > $2::bigint - coalesce((SELECT r.position FROM {schema}.step_attempts AS r
                                                WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position >= 0
                                                ORDER BY r.position DESC LIMIT 1), 0)
    ) AS f
    ORDER BY f.position NULLS LAST, f.step_key
    LIMIT $3
) AS step
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.step_attempts AS f
    WHERE f.run_id = $1 AND f.step_key = step.step_key
    ORDER BY f.attempt DESC
    LIMIT $4
) AS a
ORDER BY step.position NULLS LAST, a.step_key, a.attempt
