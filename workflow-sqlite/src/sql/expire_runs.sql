-- Called by: ownerless.rs.
-- Guarantees: fails runs past their deadline that no worker holds, up to the limit, and reads no
-- others. A run that was claimed before is left until ?4 to the workers that know it.
UPDATE workflow_runs
SET status = 'failed', error = ?2, completed_at = max(?1, created_at, coalesce(started_at, 0)), paused_at = NULL
WHERE id IN (
    SELECT id FROM workflow_runs
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked') AND deadline_at <= ?1
      AND (epoch = 0 OR deadline_at <= ?4)
    ORDER BY deadline_at, id
    LIMIT +?3
)
RETURNING id
