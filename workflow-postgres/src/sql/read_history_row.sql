-- Called by: history_page.rs.
-- Guarantees: the row of attempt $3 of step $2, by the primary key, without a payload of more than
-- $4 bytes.
SELECT a.step_key, a.attempt, a.kind, a.status, a.position, a.epoch, a.started_at, a.completed_at,
       octet_length(a.output)::bigint AS output_bytes, octet_length(a.error)::bigint AS error_bytes,
       CASE WHEN octet_length(a.output) <= $4::bigint THEN a.output END AS output,
       CASE WHEN octet_length(a.error) <= $4::bigint THEN a.error END AS error,
       false AS is_cut
FROM {schema}.step_attempts AS a
WHERE a.run_id = $1 AND a.step_key = $2 AND a.attempt = $3
