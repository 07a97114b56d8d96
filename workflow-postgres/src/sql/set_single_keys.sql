-- Called by: single.rs, with runs that this transaction has inserted, and keys that it has locked
-- and found free.
-- Guarantees: the runs have the keys.
WITH held AS MATERIALIZED (
    SELECT own.place, s.key, s.until
    FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS key, unnest($3::text[]) AS until) AS s
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place FROM {schema}.workflow_runs AS o WHERE o.id = s.id FOR NO KEY UPDATE
    ) AS own
)
UPDATE {schema}.workflow_runs AS r
SET single_key = held.key, single_until = held.until
FROM held WHERE r.ctid = held.place
