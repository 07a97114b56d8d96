-- Called by: lease.rs.
-- Guarantees: moves the lease of claims that still hold, and of no others. A claim without an
-- answer is lost.
UPDATE workflow_runs
SET available_at = ?2
FROM json_each(?1) AS c
WHERE workflow_runs.id = c.value ->> 0 AND epoch = c.value ->> 1 AND +status = 'running'
RETURNING id, epoch, cancel_requested_at, paused_at, wakes
