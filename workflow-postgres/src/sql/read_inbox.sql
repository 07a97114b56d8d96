-- Called by: read.rs, by the drive of the run.
-- Guarantees: returns the wakes of the run, its cancel request and the signals of these names that
-- no step has consumed, as of one moment. Without a signal it returns one row.
SELECT r.wakes, r.cancel_requested_at, s.seq, s.name, s.payload
FROM {schema}.workflow_runs AS r
LEFT JOIN {schema}.workflow_signals AS s ON s.run_id = r.id AND s.consumed_by IS NULL AND s.name = ANY ($2::text[])
WHERE r.id = $1
ORDER BY s.seq
LIMIT $3
