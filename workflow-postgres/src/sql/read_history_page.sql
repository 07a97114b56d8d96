-- Called by: history_page.rs. $2-$4 are position, step key and attempt of an outcome, $5 and $6 are
-- step key and attempt of a row without one. Both places have no row where the page begins.
-- Guarantees: at most $7 rows behind these places, in the order of read_history.sql, and returns no
-- payload of more than $8 bytes. Reads at most $7 entries of the index by position in each of its
-- two ranges, the last item of at most $7 streams by the primary key, and the rows of the page.
-- For a minimum of keys, the planner reads every item unless it has statistics; so the first key
-- is found by ORDER BY and LIMIT 1.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       CASE WHEN a.kind <> 'emitted' OR a.attempt = 0 THEN octet_length(a.output)::bigint END AS output_bytes,
       octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN (a.kind <> 'emitted' OR a.attempt = 0) AND octet_length(a.output) <= $8::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $8::bigint THEN a.error END AS error,
       false AS is_cut
FROM (
    WITH RECURSIVE stream (step_key, number) AS (
        SELECT (SELECT b.step_key FROM {schema}.step_attempts AS b
                WHERE b.run_id = $1 AND b.step_key >= 'emitted/' AND b.step_key < 'emitted0' AND b.step_key >= $5::text
                  AND b.kind = 'emitted'
                ORDER BY b.step_key, b.attempt
                LIMIT 1), 1::bigint
        UNION ALL
        SELECT (SELECT b.step_key FROM {schema}.step_attempts AS b
                WHERE b.run_id = $1 AND b.step_key > s.step_key AND b.step_key < 'emitted0' AND b.kind = 'emitted'
                ORDER BY b.step_key, b.attempt
                LIMIT 1), s.number + 1
        FROM stream AS s
        WHERE s.step_key IS NOT NULL AND s.number <= $7::bigint
    ), ends AS (
        SELECT s.step_key,
               (SELECT min(b.attempt) FROM {schema}.step_attempts AS b
                WHERE b.run_id = $1 AND b.step_key = s.step_key) AS first,
               (SELECT max(b.attempt) FROM {schema}.step_attempts AS b
                WHERE b.run_id = $1 AND b.step_key = s.step_key) AS last
        FROM stream AS s
        WHERE s.step_key IS NOT NULL
    )
    SELECT f.position, f.step_key, f.attempt
    FROM (
        (SELECT r.position, r.step_key, r.attempt
         FROM {schema}.step_attempts AS r
         WHERE r.run_id = $1 AND r.kind <> 'emitted'
           AND (r.position, r.step_key, r.attempt) > ($2::bigint, $3::text, $4::bigint)
         ORDER BY r.position, r.step_key, r.attempt
         LIMIT $7)
        UNION ALL
        (SELECT r.position, r.step_key, r.attempt
         FROM {schema}.step_attempts AS r
         WHERE r.run_id = $1 AND r.kind <> 'emitted' AND r.position IS NULL
           AND (r.step_key, r.attempt) > ($5::text, $6::bigint)
         ORDER BY r.position, r.step_key, r.attempt
         LIMIT $7)
        UNION ALL
        SELECT NULL::bigint, e.step_key, e.last FROM ends AS e
        WHERE e.step_key > $5::text OR e.last > $6::bigint
        UNION ALL
        SELECT NULL::bigint, e.step_key, e.first FROM ends AS e
        WHERE e.first = 0 AND e.last > 0 AND (e.step_key > $5::text OR e.first > $6::bigint)
    ) AS f
    ORDER BY f.position NULLS LAST, f.step_key, f.attempt
    LIMIT $7
) AS page
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.step_attempts AS f
    WHERE f.run_id = $1 AND f.step_key = page.step_key AND f.attempt = page.attempt
    LIMIT 1
) AS a
ORDER BY a.position NULLS LAST, a.step_key, a.attempt
