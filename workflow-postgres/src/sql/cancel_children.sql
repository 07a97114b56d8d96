-- Called by: cascade.rs, with runs that ended in this transaction.
-- Guarantees: children that are to end with them end at once if no worker ever claimed them. The
-- other such children are asked to end, and are due unless a worker holds them. Children that are
-- to go on are left alone. Locks in the order of ids.
WITH found AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.parent_run_id = ANY ($2::uuid[]) AND r.on_parent_end = 'cancel'
      AND r.status IN ('pending', 'running', 'parked')
), children AS MATERIALIZED (
    SELECT child.id
    FROM (SELECT found.id FROM found ORDER BY found.id) AS child
    CROSS JOIN LATERAL (
        SELECT r.status FROM {schema}.workflow_runs AS r WHERE r.id = child.id FOR NO KEY UPDATE
    ) AS held
    WHERE held.status IN ('pending', 'running', 'parked')
)
UPDATE {schema}.workflow_runs AS r
SET cancel_requested_at = COALESCE(r.cancel_requested_at, {now}),
    wakes = r.wakes + 1,
    paused_at = NULL,
    available_at = CASE WHEN r.status = 'running' THEN r.available_at ELSE {now} END,
    completed_at = CASE WHEN r.epoch = 0 THEN GREATEST({now}, r.created_at) END,
    status = CASE WHEN r.epoch = 0 THEN 'canceled' ELSE r.status END
WHERE r.id = ANY (ARRAY(SELECT children.id FROM children))
RETURNING r.id, r.status = 'canceled' AS ended
