-- Called by: audit.rs, at the end of a batch.
-- Guarantees: one row per order, however often it is committed.
INSERT INTO {schema}.workflow_audit (id, at, actor, verb, target, reason, arguments, outcome)
SELECT new.id, {now}, new.actor, new.verb, new.target, new.reason, new.arguments, new.outcome
FROM (
    SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS actor, unnest($4::text[]) AS verb,
           unnest($5::text[]) AS target, unnest($6::text[]) AS reason, unnest($7::text[]) AS arguments,
           unnest($8::text[]) AS outcome
) AS new
ON CONFLICT (id) DO NOTHING
