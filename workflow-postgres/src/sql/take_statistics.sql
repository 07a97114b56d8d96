-- Called by: statistics.rs, to fold old rows.
-- Guarantees: deletes and returns at most $4 rows of spans of $2 seconds that began more than $3
-- microseconds ago, the oldest ones.
DELETE FROM {schema}.workflow_stats AS s
WHERE s.ctid = ANY (ARRAY(
    SELECT old.ctid
    FROM {schema}.workflow_stats AS old
    WHERE old.seconds = $2 AND old.begins_at < {now} - $3::bigint
    ORDER BY old.begins_at, old.queue, old.workflow_name, old.version, old.process
    LIMIT $4
    FOR UPDATE
))
RETURNING s.seconds, s.begins_at, s.process, s.queue, s.workflow_name, s.version, s.started, s.begun, s.succeeded,
          s.failed, s.canceled, s.retries, s.waited, s.worked, s.durations
