-- Called by: fence.rs, once a batch, with every run that the batch may wait for.
-- Guarantees: locks them in the order of their ids until the commit, so that what it answers holds until then and no two
-- batches deadlock. NO KEY UPDATE is what their updates take, so no lock is ever upgraded.
SELECT r.id, r.epoch, r.status
FROM unnest($1::uuid[]) AS wanted(id)
JOIN {schema}.workflow_runs AS r ON r.id = wanted.id
ORDER BY r.id
FOR NO KEY UPDATE OF r
