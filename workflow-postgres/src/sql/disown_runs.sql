-- Called by: settle.rs, with a worker and all the claims that it knows.
-- Guarantees: what the worker holds without knowing is due now. Waits for no lock: a run that another transaction holds is
-- left to its lease, which nobody renews.
WITH strays AS MATERIALIZED (
    SELECT r.id FROM {schema}.workflow_runs AS r
    WHERE r.worker_id = $2 AND r.status = 'running'
      AND (r.id, r.epoch) NOT IN (SELECT known.id, known.epoch FROM unnest($3::uuid[], $4::bigint[]) AS known(id, epoch))
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.workflow_runs AS r
SET status = 'parked', worker_id = NULL, available_at = {now}
WHERE r.id = ANY (ARRAY(SELECT strays.id FROM strays))
