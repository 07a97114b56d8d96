-- Called by: fence.rs and fast_path.rs, once per batch, inside its write transaction, so that the
-- answer holds until the commit.
-- Guarantees: returns epoch and status of each run that is not running under the given epoch; they
-- are NULL if the run does not exist. Runs whose claims hold are left out, because a row costs much
-- more than its look-up, and nearly every claim holds.
SELECT c.key AS id, r.epoch, r.status
FROM json_each(?) AS c LEFT JOIN workflow_runs AS r ON r.id = c.key
WHERE r.epoch IS NOT c.value OR r.status IS NOT 'running'
