-- Called by: ownerless.rs, with runs that lock_runs.sql has locked.
-- Guarantees: a run that has not ended is canceled now. A claim on it is lost, so its worker writes
-- nothing more and finds another version of its own row (ownership.rs). Returns these runs; an
-- ended run is not among them.
WITH taken AS (
    UPDATE {schema}.workflow_workers AS w SET started_at = w.started_at
    WHERE w.id = ANY (ARRAY(SELECT r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($2::uuid[])))
)
UPDATE {schema}.workflow_runs AS r
SET epoch = r.epoch + (r.status = 'running')::integer, status = 'canceled', worker_id = NULL, error = NULL, paused_at = NULL,
    completed_at = GREATEST({now}, r.created_at, r.started_at), cancel_requested_at = COALESCE(r.cancel_requested_at, {now})
WHERE r.id = ANY ($2::uuid[]) AND r.status IN ('pending', 'running', 'parked')
RETURNING r.id, r.status
