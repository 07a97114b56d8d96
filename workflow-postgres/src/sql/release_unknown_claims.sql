-- Called by: ownerless.rs, with a worker and all claims that it knows.
-- Guarantees: the worker's other claims are released, and their runs are due now. Waits for no
-- lock: a run that another transaction holds keeps its lease, which is not renewed.
WITH strays AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.worker_id = $2 AND r.status = 'running'
      AND (r.id, r.epoch) NOT IN (SELECT known.id, known.epoch FROM unnest($3::uuid[], $4::bigint[]) AS known(id, epoch))
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET status = 'parked', worker_id = NULL, available_at = {now}
WHERE r.id = ANY (ARRAY(SELECT strays.id FROM strays))
