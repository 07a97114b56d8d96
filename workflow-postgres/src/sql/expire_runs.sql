-- Called by: ownerless.rs. $2 is the error, $3 the limit, $4 the patience in microseconds with runs
-- that were claimed before.
-- Guarantees: fails only runs past their deadline that no worker holds. Skips runs that another
-- transaction holds.
WITH late AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.deadline_at IS NOT NULL AND r.deadline_at <= {now} AND r.status IN ('pending', 'parked')
      AND (r.epoch = 0 OR r.deadline_at <= {now} - $4)
    ORDER BY r.deadline_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET status = 'failed', error = $2, completed_at = GREATEST({now}, r.created_at, r.started_at), paused_at = NULL
WHERE r.id = ANY (ARRAY(SELECT late.id FROM late))
RETURNING r.id
