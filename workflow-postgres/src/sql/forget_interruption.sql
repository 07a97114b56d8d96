-- Called by: rerun.rs, in the transaction that gives a failed run another attempt.
-- Guarantees: the run was told to end in its last attempt only; the next one is not.
DELETE FROM {schema}.step_attempts WHERE run_id = $1 AND kind = 'interruption'
