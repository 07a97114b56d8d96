-- Called by: read.rs.
-- Guarantees: returns no row for an unknown id.
SELECT r.id, r.workflow_name, r.version, r.queue, r.status, r.input, r.output, r.error, r.key, r.available_at, r.worker_id,
       r.epoch, r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.parent_step_key, r.on_parent_end,
       r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at, r.started_at, r.completed_at, r.tags
FROM {schema}.workflow_runs AS r
WHERE r.id = $1
