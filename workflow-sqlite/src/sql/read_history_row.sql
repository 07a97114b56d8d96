-- Called by: history_page.rs.
-- Guarantees: the row of attempt ?3 of step ?2, by the primary key, without a payload of more than
-- ?4 bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
    octet_length(a.output) AS output_bytes, octet_length(a.error) AS error_bytes,
    CASE WHEN octet_length(a.output) <= ?4 THEN a.output END AS output,
    CASE WHEN octet_length(a.error) <= ?4 THEN a.error END AS error,
    0 AS is_cut
FROM step_attempts AS a
WHERE a.run_id = ?1 AND a.step_key = ?2 AND a.attempt = ?3
