-- Called by: read.rs, for runs that a worker holds.
-- Guarantees: returns what others have asked of each run that exists.
SELECT id, wakes, cancel_requested_at IS NOT NULL AS is_cancel_requested, paused_at IS NOT NULL AS is_paused
FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?1))
