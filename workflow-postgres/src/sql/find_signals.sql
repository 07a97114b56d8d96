-- Called by: signal.rs, with signals that were not inserted.
-- Guarantees: returns the signals in the inboxes that have their keys, consumed or not.
SELECT found.run_id AS id, found.key, found.name, found.payload, found.created_at
FROM (SELECT unnest($1::uuid[]) AS run_id, unnest($2::text[]) AS key) AS s
CROSS JOIN LATERAL (
    SELECT o.run_id, o.key, o.name, o.payload, o.created_at FROM {schema}.workflow_signals AS o
    WHERE o.run_id = s.run_id AND o.key = s.key AND o.key IS NOT NULL
    LIMIT 1
) AS found
