-- Called by: pause.rs.
-- Guarantees: the time of the first pause stays. Returns the status of a run that has not ended,
-- else no row.
UPDATE workflow_runs
SET paused_at = coalesce(paused_at, ?2)
WHERE id = ?1 AND status IN ('pending', 'running', 'parked')
RETURNING status
