-- Called by: statistics.rs.
-- Guarantees: the rows of spans of $1 seconds that begin from $2 to before $3, the newest first, at
-- most $4.
SELECT s.seconds, s.begins_at, s.process, s.queue, s.workflow_name, s.version, s.started, s.begun, s.succeeded,
       s.failed, s.canceled, s.retries, s.waited, s.worked, s.durations
FROM {schema}.workflow_stats AS s
WHERE s.seconds = $1 AND s.begins_at >= $2 AND s.begins_at < $3
ORDER BY s.begins_at DESC, s.queue DESC, s.workflow_name DESC, s.version DESC, s.process DESC
LIMIT $4
