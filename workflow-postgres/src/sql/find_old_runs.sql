-- Called by: deletion.rs, by the worker that deletes old runs.
-- Guarantees: returns the runs of a workflow with this terminal status that ended before $3, from
-- the one behind ($4, $5) on and in the order of their ends, by the index workflow_runs_ended.
-- Reads only.
SELECT r.completed_at, r.id
FROM {schema}.workflow_runs AS r
WHERE r.workflow_name = $1 AND r.status = $2 AND r.completed_at < $3 AND (r.completed_at, r.id) > ($4, $5)
ORDER BY r.completed_at, r.id
LIMIT $6
