-- Called by: claim.rs and fast_path.rs, after claim_runs.sql and with the same runs.
-- Guarantees: returns the columns of `ClaimedRow` for each run, all in one row. A row that others
-- follow wakes the executor, which takes the processor from SQLite's thread if they share one. An
-- input of more than 16 KiB is left out, because a value has at most 1 GB; read_inputs.sql reads
-- such inputs.
SELECT json_group_array(json_array(
    id, epoch, queue, workflow_name, version, wakes, crashes, attempt, generation, depth, parent_run_id, deadline_at,
    cancel_requested_at, started_at, available_at, error, iif(octet_length(input) <= 16384, input, NULL), lone_crashes,
    created_at))
FROM workflow_runs
WHERE id IN (SELECT value FROM json_each(?))
