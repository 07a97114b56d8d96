-- Called by: pause.rs, with a run that lock_runs.sql has locked.
-- Guarantees: the time of the first pause stays. Returns the status of a run that has not ended,
-- else no row.
UPDATE {schema}.workflow_runs AS r
SET paused_at = COALESCE(r.paused_at, {now})
WHERE r.id = $2 AND r.status IN ('pending', 'running', 'parked')
RETURNING r.status
