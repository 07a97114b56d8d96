-- Called by: lease.rs.
-- Guarantees: every recorded worker.
SELECT id FROM workflow_workers ORDER BY id
