-- Called by: claim.rs and plain.rs, with the runs that find_due_runs.sql found in the same transaction.
-- Guarantees: each claim has a new epoch; a run that was still running counts a crash, before its body runs again. Answers what a
-- worker must know of each, as one JSON array of the columns of `ClaimedRow`: a value each would cost more.
UPDATE OR FAIL workflow_runs
SET epoch = epoch + 1, status = 'running', worker_id = ?2, available_at = ?3,
    started_at = coalesce(started_at, max(?4, created_at)), crashes = crashes + (status = 'running')
WHERE id IN (SELECT value FROM json_each(?1))
RETURNING json_array(
    id, epoch, queue, workflow_name, version, wakes, crashes, attempt, generation, depth, parent_run_id, deadline_at,
    cancel_requested_at, started_at, available_at, error, input)
