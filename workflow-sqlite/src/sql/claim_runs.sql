-- Called by: claim.rs and fast_path.rs, with the runs that find_due_runs.sql found in the same
-- transaction; read_claimed.sql follows.
-- Guarantees: each claim has a new epoch.
UPDATE OR FAIL workflow_runs
SET epoch = epoch + 1, rank = 0, status = 'running', worker_id = ?, available_at = ?,
    started_at = coalesce(started_at, max(?, created_at))
WHERE id IN (SELECT value FROM json_each(?))
