-- Called by: history_page.rs.
-- Guarantees: at most ?2 rows of steps without an outcome, and the last outcome, by step key and
-- attempt. Reads the keys and positions of all rows of the run, but no payload of more than ?3
-- bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
    octet_length(a.output) AS output_bytes, octet_length(a.error) AS error_bytes,
    CASE WHEN octet_length(a.output) <= ?3 THEN a.output END AS output,
    CASE WHEN octet_length(a.error) <= ?3 THEN a.error END AS error
FROM step_attempts AS a
WHERE a.run_id = ?1
  AND CASE WHEN a.position IS NULL
      THEN a.kind NOT IN ('patch', 'published', 'emitted') AND NOT EXISTS (
          SELECT 1 FROM step_attempts AS b
          WHERE b.run_id = a.run_id AND b.step_key = a.step_key AND b.position IS NOT NULL
      )
      ELSE a.position = (SELECT max(c.position) FROM step_attempts AS c WHERE c.run_id = ?1) END
ORDER BY a.step_key, a.attempt
LIMIT +?2
