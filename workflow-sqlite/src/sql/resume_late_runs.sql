-- Called by: ownerless.rs, before expire_runs.sql. ?1 is the time, ?2 the largest number.
-- Guarantees: resumes runs that were claimed before and are paused past their deadline. They become
-- due, so that a worker undoes them. A run that a worker holds under its lease is left alone: its
-- worker gives it back.
UPDATE workflow_runs
SET paused_at = NULL, available_at = min(available_at, ?1)
WHERE id IN (
    SELECT id FROM (
        SELECT id FROM workflow_runs INDEXED BY workflow_runs_deadline
        WHERE deadline_at IS NOT NULL AND status IN ('pending', 'parked') AND deadline_at <= ?1
          AND epoch > 0 AND paused_at IS NOT NULL
        ORDER BY deadline_at, id
        LIMIT +?2
    )
    UNION ALL
    SELECT id FROM (
        SELECT r.id FROM workflow_runs AS r INDEXED BY workflow_runs_running
        WHERE r.status = 'running' AND r.available_at <= ?1 AND r.deadline_at <= ?1 AND r.paused_at IS NOT NULL
        LIMIT +?2
    )
    LIMIT +?2
)
