-- Called by: lease.rs, for the worker $2 whose lock was found free.
-- Guarantees: its claims are due and it is forgotten, both or neither. Locks its row, then its runs
-- in the order of ids, as every batch does.
WITH forgotten AS (
    DELETE FROM {schema}.workflow_workers WHERE id = $2 RETURNING 1
), held AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE (SELECT count(*) FROM forgotten) >= 0
      AND r.worker_id = $2 AND r.status = 'running' AND r.available_at > {now}
    ORDER BY r.id
    FOR NO KEY UPDATE
)
UPDATE {schema}.workflow_runs AS r
SET available_at = {now}
FROM held WHERE r.id = held.id
