-- Called by: read.rs, for the runs of a worker that wait for something from outside.
-- Guarantees: the wakes of each run that exists.
SELECT id, wakes FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?1))
