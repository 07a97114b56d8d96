-- Called by: read.rs.
-- Guarantees: no row for an unknown id.
SELECT r.id, r.workflow_name, r.version, r.queue, r.status, r.input, r.output, r.error, r.key, r.available_at, r.worker_id,
       r.epoch, r.wakes, r.crashes, r.deadline_at, r.cancel_requested_at, r.created_at, r.started_at, r.completed_at, r.tags
FROM {schema}.workflow_runs AS r
WHERE r.id = $1
