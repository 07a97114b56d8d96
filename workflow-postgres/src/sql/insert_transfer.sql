-- Called by: transfer.rs, in the transaction that fences the database.
-- Guarantees: the database takes part in the transfer.
INSERT INTO {schema}.workflow_transfer (id, role, other, begun_at, ended_at, cursor) VALUES ($1, $2, $3, $4, $5, $6)
