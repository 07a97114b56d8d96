-- Called by: read.rs.
-- Guarantees: returns no row for an unknown id.
SELECT r.id, r.workflow_name, l.version, l.queue, l.gate, r.status, r.input, r.output, r.error, r.key, r.available_at, r.rank, r.worker_id,
       r.epoch, r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.parent_step_key, r.on_parent_end,
       r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at, r.started_at, r.completed_at, r.tags,
       r.single_key, r.single_until, r.trace
FROM {schema}.workflow_runs AS r
LEFT JOIN LATERAL (
    SELECT lane.queue, lane.version, lane.gate FROM {schema}.workflow_lanes AS lane WHERE lane.id = r.lane_id LIMIT 1
) AS l ON true
WHERE r.id = $1
