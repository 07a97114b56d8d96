-- Called by: attempt.rs, with attempts whose writes start children.
-- Guarantees: returns the numbers, from 1, of the attempts whose rows are final. The claims of
-- their runs hold, so no other transaction changes these rows.
SELECT asked.number
FROM (
    SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS step_key, unnest($3::bigint[]) AS attempt,
           generate_subscripts($1::uuid[], 1) AS number
) AS asked
CROSS JOIN LATERAL (
    SELECT a.status FROM {schema}.step_attempts AS a
    WHERE a.run_id = asked.run_id AND a.step_key = asked.step_key AND a.attempt = asked.attempt
    LIMIT 1
) AS found
WHERE found.status <> 'running'
