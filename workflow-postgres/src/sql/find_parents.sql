-- Called by: cascade.rs, with runs that were not ended by their worker.
-- Guarantees: returns the parents of these runs.
SELECT DISTINCT r.parent_run_id AS id
FROM {schema}.workflow_runs AS r
WHERE r.id = ANY ($1::uuid[]) AND r.parent_run_id IS NOT NULL
