-- Called by: transfer.rs, if the table exists.
-- Guarantees: returns the transfer in which the database takes part.
SELECT t.id, t.role, t.other, t.begun_at, t.ended_at, t.cursor FROM {schema}.workflow_transfer AS t
