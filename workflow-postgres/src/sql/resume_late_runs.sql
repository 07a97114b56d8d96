-- Called by: ownerless.rs, before expire_runs.sql. $2 is the limit.
-- Guarantees: resumes runs that were claimed before and are paused past their deadline. They become
-- due, so that a worker undoes them. A run that a worker holds under its lease is left alone: its
-- worker gives it back. Skips runs that another transaction holds. COALESCE keeps the index of the
-- paused runs out, which would be read whole.
WITH late AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.deadline_at IS NOT NULL AND r.deadline_at <= {now} AND r.status IN ('pending', 'parked')
      AND r.epoch > 0 AND COALESCE(r.paused_at, 0) > 0
    ORDER BY r.deadline_at
    LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
), left_behind AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.status = 'running' AND r.available_at <= {now} AND r.deadline_at <= {now} AND COALESCE(r.paused_at, 0) > 0
    LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET paused_at = NULL, available_at = LEAST(r.available_at, {now})
WHERE r.id = ANY (ARRAY(SELECT late.id FROM late UNION ALL SELECT left_behind.id FROM left_behind LIMIT $2))
