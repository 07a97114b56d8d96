-- Called by: history_page.rs. ?2 and ?3 are numbers.
-- Guarantees: at most ?2 rows of steps without an outcome, and the last outcome, by step key and
-- attempt, without a payload of more than ?4 bytes. Reads the last entry and the first ?3 attempts
-- without an outcome of the index by position, and one row of the step of each. is_cut: there are
-- more attempts without an outcome.
WITH rest AS MATERIALIZED (
    SELECT r.step_key, r.attempt, r.kind
    FROM step_attempts AS r INDEXED BY step_attempts_position
    WHERE r.run_id = ?1 AND r.kind <> 'emitted' AND r.position IS NULL
    ORDER BY r.step_key, r.attempt
    LIMIT +?3 + 1
), found AS MATERIALIZED (
    SELECT f.step_key, f.attempt
    FROM (
        SELECT * FROM (
            SELECT r.step_key, r.attempt
            FROM step_attempts AS r INDEXED BY step_attempts_position
            WHERE r.run_id = ?1 AND r.kind <> 'emitted' AND r.position >= 0
            ORDER BY r.position DESC
            LIMIT 1
        )
        UNION ALL
        SELECT u.step_key, u.attempt
        FROM rest AS u
        WHERE u.kind NOT IN ('patch', 'published')
          AND (SELECT b.position FROM step_attempts AS b
               WHERE b.run_id = ?1 AND b.step_key = u.step_key
               ORDER BY b.attempt DESC LIMIT 1) IS NULL
    ) AS f
    ORDER BY f.step_key, f.attempt
    LIMIT +?2
)
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
    octet_length(a.output) AS output_bytes, octet_length(a.error) AS error_bytes,
    CASE WHEN octet_length(a.output) <= ?4 THEN a.output END AS output,
    CASE WHEN octet_length(a.error) <= ?4 THEN a.error END AS error,
    (SELECT count(*) FROM rest) > ?3 AS is_cut
FROM found CROSS JOIN step_attempts AS a
ON a.run_id = ?1 AND a.step_key = found.step_key AND a.attempt = found.attempt
ORDER BY a.step_key, a.attempt
