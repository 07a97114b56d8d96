-- Called by: parts.rs, after lock_owners.sql, in a batch with claims that the fence cache does not
-- know. $1 are the runs whose attempts the batch records, $2 the epochs under which their writer
-- holds them.
-- Guarantees: `lost` has each of these runs that is not running under its epoch for a worker of
-- `owned`. Locks nothing, because the locked rows of the workers keep the other runs as they are.
lost AS (
    SELECT asked.id
    FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::bigint[]) AS epoch) AS asked
    LEFT JOIN LATERAL (
        SELECT r.epoch, r.status, r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = asked.id LIMIT 1
    ) AS held ON true
    WHERE held.epoch IS DISTINCT FROM asked.epoch OR held.status IS DISTINCT FROM 'running'
       OR (held.worker_id = ANY (ARRAY(SELECT owned.id FROM owned))) IS NOT TRUE
)
