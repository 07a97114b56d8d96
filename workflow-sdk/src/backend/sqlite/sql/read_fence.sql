-- Called by: fence.rs, once a batch, inside its write transaction, so that the answer holds until the commit.
-- Guarantees: epoch and status of each run that exists.
SELECT r.id, r.epoch, r.status
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r
WHERE r.id = c.value
