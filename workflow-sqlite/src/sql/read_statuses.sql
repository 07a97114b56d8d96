-- Called by: settle.rs, before it cancels or terminates, inside the write transaction.
-- Guarantees: the status of each run that exists, and how often it was claimed.
SELECT r.id, r.status, r.epoch
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
