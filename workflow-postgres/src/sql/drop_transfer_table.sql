-- Called by: transfer.rs, after drop_fence.sql.
-- Guarantees: the database takes part in no transfer.
DROP TABLE IF EXISTS {schema}.workflow_transfer
