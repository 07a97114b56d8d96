-- Called by: fence.rs, once a batch, with every run that the batch may wait for and the epoch under which its writer holds it.
-- Guarantees: locks them in the order of their ids until the commit, so that what it answers holds until then and no two
-- batches deadlock. NO KEY UPDATE is what their updates take, so no lock is ever upgraded. Answers epoch and status of each
-- run that is not running under the epoch that was asked, NULL if there is no such run: nearly every claim holds.
WITH locked AS MATERIALIZED (
    SELECT r.id, r.epoch, r.status
    FROM unnest($1::uuid[]) AS wanted(id)
    JOIN {schema}.workflow_runs AS r ON r.id = wanted.id
    ORDER BY r.id
    FOR NO KEY UPDATE OF r
)
SELECT asked.id, l.epoch, l.status
FROM unnest($1::uuid[], $2::bigint[]) AS asked(id, epoch)
LEFT JOIN locked AS l ON l.id = asked.id
WHERE l.epoch IS DISTINCT FROM asked.epoch OR l.status IS DISTINCT FROM 'running'
