-- Called by: bulk.rs, with an operation that lock_bulks.sql or find_due_bulk.sql has returned.
-- Guarantees: the operation has come this far.
UPDATE workflow_bulk
SET status = ?2, cursor = ?3, done = ?4, skipped = ?5, failed = ?6, failures = ?7, available_at = ?8, worker_id = ?9,
    epoch = ?10, ended_at = ?11
WHERE id = ?1
