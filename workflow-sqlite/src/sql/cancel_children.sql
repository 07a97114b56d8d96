-- Called by: cascade.rs, with runs that ended in this transaction.
-- Guarantees: children that are to end with them end at once if no worker ever claimed them. The
-- other such children are asked to end, and are due unless a worker holds them. Children that are
-- to go on are left alone.
UPDATE workflow_runs
SET cancel_requested_at = coalesce(cancel_requested_at, ?2),
    wakes = wakes + 1,
    paused_at = NULL,
    available_at = CASE WHEN status = 'running' THEN available_at ELSE ?2 END,
    completed_at = CASE WHEN epoch = 0 THEN max(?2, created_at) ELSE NULL END,
    status = CASE WHEN epoch = 0 THEN 'canceled' ELSE status END
WHERE parent_run_id IN (SELECT value FROM json_each(?1)) AND on_parent_end = 'cancel'
  AND status IN ('pending', 'running', 'parked')
RETURNING id, status = 'canceled' AS ended
