-- Called by: read.rs, for waits for a result and for parents of these runs.
-- Guarantees: returns the ids of the array that no run has.
SELECT asked.id
FROM unnest($1::uuid[]) AS asked(id)
WHERE NOT EXISTS (SELECT 1 FROM {schema}.workflow_runs AS r WHERE r.id = asked.id)
