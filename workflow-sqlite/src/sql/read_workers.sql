-- Called by: workers.rs.
-- Guarantees: returns every recorded worker.
SELECT id, lanes, retention, started_at FROM workflow_workers ORDER BY id
