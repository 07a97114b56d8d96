-- Called by: bulk.rs, by the workers.
-- Guarantees: returns when the next bulk operation is due, or no row. Reads one entry of the index.
SELECT available_at FROM workflow_bulk WHERE status = 'running' ORDER BY available_at LIMIT 1
