-- Called by: read.rs, with all the runs that a process waits for.
-- Guarantees: returns only runs that have ended.
SELECT r.id, r.status, r.output, r.error
FROM {schema}.workflow_runs AS r
WHERE r.id = ANY ($1::uuid[]) AND r.status IN ('succeeded', 'failed', 'canceled')
