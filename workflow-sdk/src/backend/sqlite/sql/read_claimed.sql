-- Called by: claim.rs, with the runs that claim_runs.sql has just claimed.
-- Guarantees: what a worker must know of them, as one JSON array of the columns of `ClaimedRow`, in no order.
SELECT json_group_array(json_array(
    r.id, r.epoch, r.queue, r.workflow_name, r.version, r.wakes, r.crashes, r.attempt, r.generation, r.depth,
    r.parent_run_id, r.deadline_at, r.cancel_requested_at, r.started_at, r.available_at, r.error, r.input))
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
