-- Called by: fence.rs, once per batch, with every run that the batch may wait for, in the order of
-- their ids, and the epoch under which its writer holds it.
-- Guarantees: locks them in that order until the commit, so that the answer holds until then and no
-- two batches deadlock. NO KEY UPDATE is the lock that their updates take, so no lock is ever
-- upgraded. Nearly every claim holds, so it returns only the other runs: epoch and status of each
-- run that is not running under the epoch that was asked, NULL for a run that does not exist.
SELECT asked.id, held.epoch, held.status
FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::bigint[]) AS epoch) AS asked
LEFT JOIN LATERAL (
    SELECT r.epoch, r.status FROM {schema}.workflow_runs AS r WHERE r.id = asked.id FOR NO KEY UPDATE
) AS held ON true
WHERE held.epoch IS DISTINCT FROM asked.epoch OR held.status IS DISTINCT FROM 'running'
