-- Called by: statistics.rs, to fold old rows.
-- Guarantees: deletes and returns at most ?3 rows of spans of ?1 seconds that begin before ?2, the
-- oldest ones.
DELETE FROM workflow_stats
WHERE (seconds, begins_at, queue, workflow_name, version, process) IN (
    SELECT seconds, begins_at, queue, workflow_name, version, process
    FROM workflow_stats
    WHERE seconds = ?1 AND begins_at < ?2
    ORDER BY begins_at, queue, workflow_name, version, process
    LIMIT +?3
)
RETURNING seconds, begins_at, process, queue, workflow_name, version, started, begun, succeeded, failed, canceled,
          retries, waited, worked, durations
