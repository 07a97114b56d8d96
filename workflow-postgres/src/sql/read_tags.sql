-- Called by: statistics.rs.
-- Guarantees: the tags of those of these runs that exist, by the primary key.
SELECT r.id, r.tags
FROM {schema}.workflow_runs AS r
WHERE r.id = ANY ($1::uuid[])
