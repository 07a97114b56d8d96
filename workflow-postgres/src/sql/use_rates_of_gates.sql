-- Called by: gate.rs, after a claim. $1 are queues, $2 a gate of each, which this transaction has
-- locked, $3 times.
-- Guarantees: the rate of each gate is used up until its time.
WITH used AS MATERIALIZED (
    SELECT found.place, asked.until
    FROM (SELECT unnest($1::text[]) AS queue, unnest($2::text[]) AS gate, unnest($3::bigint[]) AS until) AS asked
    CROSS JOIN LATERAL (
        SELECT g.ctid AS place FROM {schema}.workflow_gates AS g
        WHERE g.queue = asked.queue AND g.gate = asked.gate
        FOR NO KEY UPDATE
    ) AS found
)
UPDATE {schema}.workflow_gates AS g SET used_until = used.until FROM used WHERE g.ctid = used.place
