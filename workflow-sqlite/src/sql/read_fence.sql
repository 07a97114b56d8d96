-- Called by: fence.rs and fast_path.rs, once a batch, inside its write transaction, so that the answer holds until the commit.
-- Guarantees: epoch and status of each run that is not running under the epoch that was asked; NULL if there is no such run.
-- A row costs much more than its look-up, and nearly every claim holds.
SELECT c.key AS id, r.epoch, r.status
FROM json_each(?) AS c LEFT JOIN workflow_runs AS r ON r.id = c.key
WHERE r.epoch IS NOT c.value OR r.status IS NOT 'running'
