-- Called by: transfer.rs, after the triggers of the fence were dropped.
-- Guarantees: the function of the triggers is gone.
DROP FUNCTION IF EXISTS {schema}.workflow_refuse_change()
