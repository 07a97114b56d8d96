-- Called by: history_page.rs. ?2-?4 are position, step key and attempt of an outcome, ?5 and ?6 are
-- step key and attempt of a row without one. Both places have no row where the page begins.
-- Guarantees: at most ?7 rows behind these places, in the order of read_history.sql, and no payload
-- of more than ?8 bytes. Reads at most ?7 entries of the index by position in each of its two
-- ranges, the last item of at most ?7 streams by the primary key, and the rows of the page.
WITH RECURSIVE stream (step_key, number) AS (
    SELECT (SELECT min(b.step_key) FROM step_attempts AS b
            WHERE b.run_id = ?1 AND b.step_key >= max('emitted/', ?5) AND b.step_key < 'emitted0' AND b.kind = 'emitted'), 1
    UNION ALL
    SELECT (SELECT min(b.step_key) FROM step_attempts AS b
            WHERE b.run_id = ?1 AND b.step_key > s.step_key AND b.step_key < 'emitted0' AND b.kind = 'emitted'), s.number + 1
    FROM stream AS s
    WHERE s.step_key IS NOT NULL AND s.number <= ?7
), ends AS (
    SELECT s.step_key,
        (SELECT min(b.attempt) FROM step_attempts AS b WHERE b.run_id = ?1 AND b.step_key = s.step_key) AS first,
        (SELECT max(b.attempt) FROM step_attempts AS b WHERE b.run_id = ?1 AND b.step_key = s.step_key) AS last
    FROM stream AS s
    WHERE s.step_key IS NOT NULL
)
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
    CASE WHEN a.kind <> 'emitted' OR a.attempt = 0 THEN octet_length(a.output) END AS output_bytes,
    octet_length(a.error) AS error_bytes,
    CASE WHEN (a.kind <> 'emitted' OR a.attempt = 0) AND octet_length(a.output) <= ?8 THEN a.output END AS output,
    CASE WHEN octet_length(a.error) <= ?8 THEN a.error END AS error,
    0 AS is_cut
FROM (
    SELECT f.position, f.step_key, f.attempt
    FROM (
        SELECT * FROM (
            SELECT r.position, r.step_key, r.attempt
            FROM step_attempts AS r INDEXED BY step_attempts_position
            WHERE r.run_id = ?1 AND r.kind <> 'emitted' AND (r.position, r.step_key, r.attempt) > (?2, ?3, ?4)
            ORDER BY r.position, r.step_key, r.attempt
            LIMIT +?7
        )
        UNION ALL
        SELECT * FROM (
            SELECT r.position, r.step_key, r.attempt
            FROM step_attempts AS r INDEXED BY step_attempts_position
            WHERE r.run_id = ?1 AND r.kind <> 'emitted' AND r.position IS NULL AND (r.step_key, r.attempt) > (?5, ?6)
            ORDER BY r.step_key, r.attempt
            LIMIT +?7
        )
        UNION ALL
        SELECT NULL, e.step_key, e.last FROM ends AS e WHERE e.step_key > ?5 OR e.last > ?6
        UNION ALL
        SELECT NULL, e.step_key, e.first FROM ends AS e
        WHERE e.first = 0 AND e.last > 0 AND (e.step_key > ?5 OR e.first > ?6)
    ) AS f
    ORDER BY f.position NULLS LAST, f.step_key, f.attempt
    LIMIT +?7
) AS page CROSS JOIN step_attempts AS a ON a.run_id = ?1 AND a.step_key = page.step_key AND a.attempt = page.attempt
ORDER BY a.position NULLS LAST, a.step_key, a.attempt
