-- Called by: fence.rs, once per batch that may end runs with children, or runs whose parents it
-- does not know. $1 is every run that the batch may wait for, $2 those that may have children, $3
-- those that may have a parent.
-- Guarantees: see lock_runs.sql. Locks also the children that are to end and the parents that are
-- to be woken, because later they would be locked out of order.
WITH children AS MATERIALIZED (
    SELECT child.id FROM {schema}.workflow_runs AS child
    WHERE child.parent_run_id = ANY ($2::uuid[]) AND child.on_parent_end = 'cancel'
      AND child.status IN ('pending', 'running', 'parked')
), parents AS MATERIALIZED (
    SELECT child.parent_run_id AS id FROM {schema}.workflow_runs AS child WHERE child.id = ANY ($3::uuid[])
)
SELECT wanted.id, held.epoch, held.status
FROM (
    SELECT unnest($1::uuid[]) AS id
    UNION SELECT children.id FROM children
    UNION SELECT parents.id FROM parents
    ORDER BY id
) AS wanted
CROSS JOIN LATERAL (
    SELECT r.epoch, r.status FROM {schema}.workflow_runs AS r WHERE r.id = wanted.id FOR NO KEY UPDATE
) AS held
