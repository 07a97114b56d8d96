-- Called by: signal.rs, with signals that were not inserted.
-- Guarantees: returns those whose key the inbox has.
SELECT found.run_id AS id, found.key
FROM (SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS key) AS s
CROSS JOIN LATERAL (
    SELECT o.run_id, o.key FROM {schema}.workflow_signals AS o
    WHERE o.run_id = s.run_id AND o.key = s.key AND o.key IS NOT NULL
    LIMIT 1
) AS found
