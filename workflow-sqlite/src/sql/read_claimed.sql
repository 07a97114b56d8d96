-- Called by: claim.rs and fast_path.rs, after claim_runs.sql and with the same runs.
-- Guarantees: what a worker must know of each, the columns of `ClaimedRow`, all in one row: each row that comes while others follow
-- wakes the executor, and a processor that it shares with SQLite's thread is taken from that. An input of more than 16 KiB is left
-- out, for one value may not be larger than 1 GB; read_inputs.sql reads those.
SELECT json_group_array(json_array(
    id, epoch, queue, workflow_name, version, wakes, crashes, attempt, generation, depth, parent_run_id, deadline_at,
    cancel_requested_at, started_at, available_at, error, iif(octet_length(input) <= 16384, input, NULL)))
FROM workflow_runs
WHERE id IN (SELECT value FROM json_each(?))
