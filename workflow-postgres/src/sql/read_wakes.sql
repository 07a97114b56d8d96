-- Called by: read.rs, for runs that a worker holds.
-- Guarantees: returns what others have asked of each run that exists.
SELECT r.id, r.wakes, r.cancel_requested_at IS NOT NULL AS is_cancel_requested, r.paused_at IS NOT NULL AS is_paused
FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($1::uuid[])
