-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: each row of ?1 is in the table with these counts, in place of older ones.
INSERT INTO workflow_stats (seconds, begins_at, process, queue, workflow_name, version, started, begun, succeeded,
                            failed, canceled, retries, waited, worked, durations)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14
FROM jsonb_each(?1)
WHERE true
ON CONFLICT (seconds, begins_at, queue, workflow_name, version, process) DO UPDATE
SET started = excluded.started, begun = excluded.begun, succeeded = excluded.succeeded, failed = excluded.failed,
    canceled = excluded.canceled, retries = excluded.retries, waited = excluded.waited, worked = excluded.worked,
    durations = excluded.durations
