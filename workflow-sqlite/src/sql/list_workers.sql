-- Called by: lease.rs.
-- Guarantees: returns id and start of every recorded worker.
SELECT id, started_at FROM workflow_workers ORDER BY id
