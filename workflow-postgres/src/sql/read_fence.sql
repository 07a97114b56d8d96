-- Called by: fence.rs, when the transaction of a step begins. Locks nothing: lock_runs.sql does
-- before its commit.
-- Guarantees: returns epoch and status of the run, if it exists.
SELECT r.id, r.epoch, r.status
FROM {schema}.workflow_runs AS r
WHERE r.id = $1
