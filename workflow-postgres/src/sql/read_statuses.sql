-- Called by: ownerless.rs, for the runs that a cancel or termination did not change, in its
-- transaction.
-- Guarantees: returns the status of each run that exists.
SELECT r.id, r.status FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($1::uuid[])
