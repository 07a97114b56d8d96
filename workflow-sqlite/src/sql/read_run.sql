-- Called by: read.rs.
-- Guarantees: returns the run with this id, if it exists.
SELECT id, workflow_name, version, queue, status, input, output, error, key, available_at, worker_id, epoch, wakes,
    crashes, lone_crashes, attempt, generation, depth, parent_run_id, parent_step_key, on_parent_end, deadline_at, cancel_requested_at,
    paused_at, created_at, started_at, completed_at, tags
FROM workflow_runs
WHERE id = ?1
