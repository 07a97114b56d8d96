-- Called by: transfer.rs, in the transaction that fences the database, under its locks.
-- Guarantees: returns whether a worker is recorded, alive or not.
SELECT EXISTS (SELECT FROM {schema}.workflow_workers) AS found
