-- Called by: lease.rs.
-- Guarantees: returns the id of every recorded worker.
SELECT id FROM workflow_workers ORDER BY id
