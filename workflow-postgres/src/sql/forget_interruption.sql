-- Called by: retry.rs, in the transaction that revives a failed run.
-- Guarantees: the interruption belonged to the last attempt of the run. The next attempt is not
-- interrupted.
DELETE FROM {schema}.step_attempts WHERE run_id = $1 AND kind = 'interruption'
