-- Called by: family.rs, with runs that ended by other hands than their worker's.
-- Guarantees: the parents of these runs.
SELECT DISTINCT r.parent_run_id AS id
FROM {schema}.workflow_runs AS r
WHERE r.id = ANY ($1::uuid[]) AND r.parent_run_id IS NOT NULL
