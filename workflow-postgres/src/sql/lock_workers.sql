-- Called by: fence.rs, on the long way of a batch. $1 are the workers of the process, $2 says that runs are to be terminated.
-- Guarantees: until the commit nobody takes a running run away from those that it names (worker_lock.rs): these workers, or all of them
-- if runs are to be terminated. A run that is claimed before it is locked has another holder than it had, whose lock would come too late.
SELECT w.id FROM {schema}.workflow_workers AS w
WHERE w.id = ANY ($1::uuid[]) OR $2::boolean
ORDER BY w.id
FOR UPDATE
