-- Called by: claim.rs, once for each lane.
-- Guarantees: the lane's runs that have been due longest; reads only rows that it answers, by the index of due runs.
SELECT id, available_at
FROM workflow_runs
WHERE queue = ?1 AND workflow_name = ?2 AND version = ?3 AND available_at <= ?4
  AND status IN ('pending', 'running', 'parked') AND paused_at IS NULL
ORDER BY available_at, id
LIMIT ?5
