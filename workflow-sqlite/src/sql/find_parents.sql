-- Called by: cascade.rs, with runs that were not ended by their worker.
-- Guarantees: returns the parents of these runs.
SELECT DISTINCT parent_run_id AS id
FROM workflow_runs
WHERE id IN (SELECT value FROM json_each(?1)) AND parent_run_id IS NOT NULL
