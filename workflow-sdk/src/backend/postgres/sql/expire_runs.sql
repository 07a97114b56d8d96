-- Called by: settle.rs. $2 is the error, $3 the limit.
-- Guarantees: fails only runs past their deadline that no worker holds; skips what another transaction holds.
WITH late AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.deadline_at IS NOT NULL AND r.deadline_at <= {now} AND r.status IN ('pending', 'parked')
    ORDER BY r.deadline_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET status = 'failed', error = $2, completed_at = {now}, paused_at = NULL
FROM late WHERE r.id = late.id
RETURNING r.id
