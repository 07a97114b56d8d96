-- Called by: claim.rs and fast_path.rs, after claim_runs.sql and with the same runs.
-- Guarantees: returns the columns of `ClaimedRow` for each run, all in one row. A row that others
-- follow wakes the executor, which takes the processor from SQLite's thread if they share one. An
-- input of more than 16 KiB is left out, because a value has at most 1 GB; read_inputs.sql reads
-- such inputs.
SELECT json_group_array(json_array(
    r.id, r.epoch, l.queue, r.workflow_name, l.version, r.wakes, r.crashes, r.attempt, r.generation, r.depth, r.parent_run_id,
    r.deadline_at, r.cancel_requested_at, r.started_at, r.available_at, r.error,
    iif(octet_length(r.input) <= 16384, r.input, NULL), r.lone_crashes, r.created_at, l.gate, r.trace))
FROM workflow_runs AS r CROSS JOIN workflow_lanes AS l
WHERE r.id IN (SELECT value FROM json_each(?)) AND l.id = r.lane_id
