-- Called by: pause.rs.
-- Guarantees: the run is due when it was due before the pause. Returns the run if it was paused and
-- has not ended.
UPDATE workflow_runs
SET paused_at = NULL
WHERE id = ?1 AND status IN ('pending', 'running', 'parked') AND paused_at IS NOT NULL
RETURNING id
