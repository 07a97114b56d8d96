-- Called by: single.rs, with a run that lock_runs.sql has locked. $2 is the attempt that failed.
-- Guarantees: returns the single key that the run gets back if it is pending again.
SELECT r.workflow_name, r.single_key, r.single_until FROM {schema}.workflow_runs AS r
WHERE r.id = $1 AND r.status = 'failed' AND r.attempt = $2 AND r.single_key IS NOT NULL
  AND (r.single_until = 'end' OR r.epoch = 0)
