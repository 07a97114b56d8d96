-- Called by: ownerless.rs, before it cancels or terminates, inside the write transaction.
-- Guarantees: returns status and epoch of each run that exists.
SELECT r.id, r.status, r.epoch
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
