-- Called by: read.rs.
-- Guarantees: returns no row if no run of this workflow has this key.
SELECT r.id
FROM {schema}.workflow_runs AS r
WHERE r.workflow_name = $1 AND r.key = $2
