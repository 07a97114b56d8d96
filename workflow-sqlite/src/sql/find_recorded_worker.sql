-- Called by: transfer.rs, in the transaction that fences the database.
-- Guarantees: returns whether a worker is recorded, alive or not.
SELECT EXISTS (SELECT 1 FROM workflow_workers)
