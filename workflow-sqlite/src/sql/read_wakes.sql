-- Called by: read.rs, for the runs of a worker that wait for external events.
-- Guarantees: returns the number of wakes of each run that exists.
SELECT id, wakes FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?1))
