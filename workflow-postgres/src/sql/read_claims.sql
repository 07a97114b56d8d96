-- Called by: fence.rs, once per batch, in a transaction that holds the rows of the workers $3
-- (lock_workers.sql), with the runs whose attempts it records and the epoch under which their
-- writer holds them.
-- Guarantees: locks nothing, because the locked rows of the workers keep the other runs as they are
-- until the commit. Returns the runs that are not running under that epoch and held by one of these
-- workers: nearly none.
SELECT asked.id
FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::bigint[]) AS epoch) AS asked
LEFT JOIN LATERAL (
    SELECT r.epoch, r.status, r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = asked.id LIMIT 1
) AS held ON true
WHERE held.epoch IS DISTINCT FROM asked.epoch OR held.status IS DISTINCT FROM 'running'
   OR (held.worker_id = ANY ($3::uuid[])) IS NOT TRUE
