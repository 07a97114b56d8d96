-- Called by: read.rs, for everybody in this process who waits for a result.
-- Guarantees: those of the runs that have ended.
SELECT id, status, output, error
FROM workflow_runs
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('succeeded', 'failed', 'canceled')
