-- Called by: statistics.rs.
-- Guarantees: the rows of spans of ?1 seconds that begin from ?2 to before ?3, the newest first, at
-- most ?4.
SELECT seconds, begins_at, process, queue, workflow_name, version, started, begun, succeeded, failed, canceled,
       retries, waited, worked, durations
FROM workflow_stats
WHERE seconds = ?1 AND begins_at >= ?2 AND begins_at < ?3
ORDER BY begins_at DESC, queue DESC, workflow_name DESC, version DESC, process DESC
LIMIT +?4
