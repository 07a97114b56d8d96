-- Called by: history_page.rs. The rows stand behind attempt $3 of step $2, or behind the step key
-- $4 and attempt $5 of a repetition. $6 stands behind the keys of all repetitions.
-- Guarantees: at most $7 rows of the step and of its repetitions, by step key and attempt, and no
-- payload of more than $8 bytes. Reads at most $7 rows in each of two ranges of the primary key.
SELECT found.step_key, found.attempt, found.kind, found.status, found.position, found.epoch, found.started_at,
       found.completed_at,
       CASE WHEN found.kind <> 'emitted' OR found.attempt = 0 THEN octet_length(found.output)::bigint END AS output_bytes,
       octet_length(found.error)::bigint AS error_bytes,
       CASE WHEN (found.kind <> 'emitted' OR found.attempt = 0) AND octet_length(found.output) <= $8::bigint
            THEN found.output END AS output,
       CASE WHEN octet_length(found.error) <= $8::bigint THEN found.error END AS error,
       false AS is_cut
FROM (
    (SELECT r.*
     FROM {schema}.step_attempts AS r
     WHERE r.run_id = $1 AND r.step_key = $2::text AND r.attempt > $3::bigint
     ORDER BY r.step_key, r.attempt
     LIMIT $7::bigint)
    UNION ALL
    (SELECT r.*
     FROM {schema}.step_attempts AS r
     WHERE r.run_id = $1 AND (r.step_key, r.attempt) > ($4::text, $5::bigint) AND r.step_key < $6::text
     ORDER BY r.step_key, r.attempt
     LIMIT $7::bigint)
) AS found
ORDER BY found.step_key, found.attempt
LIMIT $7::bigint
