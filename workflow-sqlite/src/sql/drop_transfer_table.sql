-- Called by: transfer.rs, after the triggers of the fence were dropped.
-- Guarantees: the database takes part in no transfer.
DROP TABLE IF EXISTS workflow_transfer
