-- Called by: history_page.rs.
-- Guarantees: all rows of at most ?3 steps, without the first ?2, in the order in which the steps
-- first began. Reads the keys and times of all rows of the run, but payloads only of these steps,
-- and none of more than ?4 bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
    octet_length(a.output) AS output_bytes, octet_length(a.error) AS error_bytes,
    CASE WHEN octet_length(a.output) <= ?4 THEN a.output END AS output,
    CASE WHEN octet_length(a.error) <= ?4 THEN a.error END AS error
FROM (
    SELECT r.step_key, min(r.started_at) AS began_at
    FROM step_attempts AS r
    WHERE r.run_id = ?1 AND r.kind NOT IN ('patch', 'published', 'emitted')
    GROUP BY r.step_key
    ORDER BY began_at, r.step_key
    LIMIT +?3 OFFSET +?2
) AS step CROSS JOIN step_attempts AS a ON a.run_id = ?1 AND a.step_key = step.step_key
ORDER BY step.began_at, a.step_key, a.attempt
