-- Called by: fence.rs, on the slow path of a batch. $1 are the workers of the process, $2 says that
-- runs are to be terminated.
-- Guarantees: until the commit, no running run is taken from these workers (ownership.rs): from the
-- workers of the process, or from all if runs are to be terminated. All, because a run that is
-- claimed before it is locked has another worker by then, and the lock of that worker would come
-- too late.
SELECT w.id FROM {schema}.workflow_workers AS w
WHERE w.id = ANY ($1::uuid[]) OR $2::boolean
ORDER BY w.id
FOR UPDATE
