-- Called by: statistics.rs, at the end of a batch that has ended runs without their workers.
-- Guarantees: the failed and canceled runs of each lane of ?1 are added to the row of all processes
-- for the minute that begins at ?2.
INSERT INTO workflow_stats (seconds, begins_at, process, queue, workflow_name, version, failed, canceled)
SELECT 60, ?2, ?3, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM jsonb_each(?1)
WHERE true
ON CONFLICT (seconds, begins_at, queue, workflow_name, version, process) DO UPDATE
SET failed = failed + excluded.failed, canceled = canceled + excluded.canceled
