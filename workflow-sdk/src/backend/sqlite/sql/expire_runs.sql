-- Called by: settle.rs.
-- Guarantees: fails at most so many runs past their deadline that no worker holds; reads no others.
UPDATE workflow_runs
SET status = 'failed', error = ?2, completed_at = ?1, paused_at = NULL
WHERE id IN (
    SELECT id FROM workflow_runs
    WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked') AND deadline_at <= ?1
    ORDER BY deadline_at, id
    LIMIT ?3
)
RETURNING id
