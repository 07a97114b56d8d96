-- Called by: fence.rs, on the long way of a batch. $1 are the workers of the process, $2 runs that are to be terminated.
-- Guarantees: until the commit nobody takes a running run away from those that it names (worker_lock.rs): these workers, and those that
-- hold these runs. Of a run that is claimed at this moment the holder is locked later, in whatever order that is then.
SELECT w.id FROM {schema}.workflow_workers AS w
WHERE w.id = ANY ($1::uuid[] || ARRAY(
    SELECT r.worker_id FROM {schema}.workflow_runs AS r WHERE r.id = ANY ($2::uuid[])))
ORDER BY w.id
FOR UPDATE
