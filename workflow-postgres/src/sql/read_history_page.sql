-- Called by: history_page.rs. $2-$4 are position, step key and attempt of a row, or NULL for the
-- beginning.
-- Guarantees: at most $5 rows after it, in the order of read_history.sql. Reads the keys and
-- positions of all rows of the run, but payloads only of the page, and returns none of more than
-- $6 bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       CASE WHEN a.kind <> 'emitted' OR a.attempt = 0 THEN octet_length(a.output)::bigint END AS output_bytes,
       octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN (a.kind <> 'emitted' OR a.attempt = 0) AND octet_length(a.output) <= $6::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $6::bigint THEN a.error END AS error
FROM (
    SELECT r.step_key, r.attempt
    FROM {schema}.step_attempts AS r
    WHERE r.run_id = $1
      AND ($3::text IS NULL OR CASE WHEN $2::bigint IS NULL
           THEN r.position IS NULL AND (r.step_key, r.attempt) > ($3::text, $4::bigint)
           ELSE r.position IS NULL OR (r.position, r.step_key, r.attempt) > ($2::bigint, $3::text, $4::bigint) END)
      AND (r.kind <> 'emitted' OR r.attempt = 0
           OR r.attempt = (SELECT max(b.attempt) FROM {schema}.step_attempts AS b
                           WHERE b.run_id = r.run_id AND b.step_key = r.step_key))
    ORDER BY r.position NULLS LAST, r.step_key, r.attempt
    LIMIT $5
) AS page
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.step_attempts AS f
    WHERE f.run_id = $1 AND f.step_key = page.step_key AND f.attempt = page.attempt
    LIMIT 1
) AS a
ORDER BY a.position NULLS LAST, a.step_key, a.attempt
