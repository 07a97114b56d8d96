-- Called by: read.rs.
-- Guarantees: returns the id of the run of this workflow with this key, if it exists, by index.
SELECT id
FROM workflow_runs
WHERE workflow_name = ?1 AND key = ?2
