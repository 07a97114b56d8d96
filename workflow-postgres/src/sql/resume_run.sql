-- Called by: pause.rs, with a run that lock_runs.sql has locked.
-- Guarantees: the run is due when it was due before the pause. Returns the run if it was paused and
-- has not ended.
UPDATE {schema}.workflow_runs AS r
SET paused_at = NULL
WHERE r.id = $1 AND r.status IN ('pending', 'running', 'parked') AND r.paused_at IS NOT NULL
RETURNING r.id
