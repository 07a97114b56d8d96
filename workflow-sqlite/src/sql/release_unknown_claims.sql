-- Called by: ownerless.rs, for one worker at a time.
-- Guarantees: releases this worker's claims except the known ones. Reads the index of running runs,
-- and the rows that this worker holds.
UPDATE workflow_runs
SET status = 'parked', available_at = ?3, worker_id = NULL
WHERE id IN (
    SELECT id FROM workflow_runs INDEXED BY workflow_runs_running WHERE status = 'running' AND worker_id = ?1)
  AND (id, epoch) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2))
