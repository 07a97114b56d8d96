-- Called by: lease.rs, for the worker $2 whose lock was found free.
-- Guarantees: its runs are due, each has one crash more, and the worker is forgotten: all or
-- nothing, and once. A run that it drove alone has one lone crash more. Locks its row, then its
-- runs in the order of ids, as every batch does.
WITH forgotten AS (
    DELETE FROM {schema}.workflow_workers WHERE id = $2 RETURNING 1
), held AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE (SELECT count(*) FROM forgotten) > 0
      AND r.worker_id = $2 AND r.status = 'running'
    ORDER BY r.id
    FOR NO KEY UPDATE
)
UPDATE {schema}.workflow_runs AS r
SET available_at = LEAST(r.available_at, {now}), crashes = r.crashes + 1,
    lone_crashes = CASE WHEN r.alone_epoch = r.epoch THEN COALESCE(r.lone_crashes, 0) + 1 ELSE r.lone_crashes END
FROM held WHERE r.id = held.id
