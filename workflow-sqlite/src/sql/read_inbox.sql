-- Called by: read.rs, for the drive of the run.
-- Guarantees: returns the wakes of the run, its cancel, and the signals of these names that no step
-- has taken, as of one moment. Without such a signal it returns one row.
SELECT r.wakes, r.cancel_requested_at, s.seq, s.name, s.payload
FROM workflow_runs AS r
LEFT JOIN workflow_signals AS s
    ON s.run_id = r.id AND s.consumed_by IS NULL AND s.name IN (SELECT value FROM json_each(?2))
WHERE r.id = ?1
ORDER BY s.seq
LIMIT +?3
