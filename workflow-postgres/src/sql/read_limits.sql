-- Called by: limit.rs. $1 are names, or NULL for all limits.
-- Guarantees: the limits with a record, in the order of the names.
SELECT name, declared, overridden FROM {schema}.workflow_limits
WHERE $1::text[] IS NULL OR name = ANY ($1::text[])
ORDER BY name
