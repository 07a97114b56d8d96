-- Called by: read.rs, for the runs of a worker that wait for external events.
-- Guarantees: returns the wakes of each run that exists.
SELECT r.id, r.wakes FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($1::uuid[])
