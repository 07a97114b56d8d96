-- Called by: fence.rs, once a batch that may end runs which have children, or runs whose parents it does not know. $1 is
-- every run that the batch may wait for, $2 those that may have children, $3 those that may have a parent.
-- Guarantees: what lock_runs.sql does, with the children that are to end and the parents that are to be woken: locked
-- later, they would be locked out of order.
SELECT r.id, r.epoch, r.status
FROM (
    SELECT unnest($1::uuid[]) AS id
    UNION
    SELECT child.id FROM {schema}.workflow_runs AS child
    WHERE child.parent_run_id = ANY ($2::uuid[]) AND child.on_parent_end = 'cancel'
      AND child.status IN ('pending', 'running', 'parked')
    UNION
    SELECT child.parent_run_id FROM {schema}.workflow_runs AS child WHERE child.id = ANY ($3::uuid[])
) AS wanted
JOIN {schema}.workflow_runs AS r ON r.id = wanted.id
ORDER BY r.id
FOR NO KEY UPDATE OF r
