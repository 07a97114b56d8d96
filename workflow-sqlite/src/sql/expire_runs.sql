-- Called by: ownerless.rs.
-- Guarantees: fails runs past their deadline that no worker holds, up to the limit, and reads no
-- others but the running ones. A run that was claimed before is left until ?4 to the workers that
-- know it. A running run is taken only if its worker is not recorded any more, and if its lease had
-- ended by ?4; a claim on it is lost.
UPDATE workflow_runs
SET epoch = epoch + (status = 'running'), status = 'failed', worker_id = NULL, error = ?2,
    completed_at = max(?1, created_at, coalesce(started_at, 0)), paused_at = NULL
WHERE id IN (
    SELECT id FROM (
        SELECT id FROM workflow_runs
        WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked') AND deadline_at <= ?1
          AND (epoch = 0 OR deadline_at <= ?4)
        ORDER BY deadline_at, id
        LIMIT +?3
    )
    UNION ALL
    SELECT id FROM (
        SELECT r.id FROM workflow_runs AS r INDEXED BY workflow_runs_running
        WHERE r.status = 'running' AND r.available_at <= ?4 AND r.deadline_at <= ?4
          AND NOT EXISTS (SELECT 1 FROM workflow_workers AS w WHERE w.id = r.worker_id)
        LIMIT +?3
    )
    LIMIT +?3
)
RETURNING id
