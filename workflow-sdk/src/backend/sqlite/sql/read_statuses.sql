-- Called by: settle.rs, before it cancels, inside the write transaction.
-- Guarantees: the status of each run that exists.
SELECT r.id, r.status
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
