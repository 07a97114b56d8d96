-- Called by: transfer.rs, if the table exists.
-- Guarantees: returns the transfer in which the database takes part.
SELECT id, role, other, begun_at, ended_at, cursor FROM workflow_transfer
