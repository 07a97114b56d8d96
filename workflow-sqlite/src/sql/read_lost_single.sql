-- Called by: single.rs. ?2 is the attempt of the run that failed.
-- Guarantees: returns the single key that the run gets back if it is pending again.
SELECT workflow_name, single_key, single_until FROM workflow_runs
WHERE id = ?1 AND status = 'failed' AND attempt = ?2 AND single_key IS NOT NULL AND (single_until = 'end' OR epoch = 0)
