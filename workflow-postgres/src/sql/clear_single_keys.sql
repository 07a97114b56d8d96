-- Called by: single.rs, with runs that the fence has locked and that are replaced.
-- Guarantees: the runs have no single key.
UPDATE {schema}.workflow_runs AS r
SET single_key = NULL, single_until = NULL
WHERE r.id = ANY ($1::uuid[])
