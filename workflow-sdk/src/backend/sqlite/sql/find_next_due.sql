-- Called by: read.rs, for the lanes of a worker.
-- Guarantees: the earliest due time over all lanes, by one look at the index of due runs for each.
SELECT min((
    SELECT available_at FROM workflow_runs AS r
    WHERE r.queue = l.value ->> 0 AND r.workflow_name = l.value ->> 1 AND r.version = l.value ->> 2
      AND r.status IN ('pending', 'running', 'parked') AND r.paused_at IS NULL
    ORDER BY r.available_at
    LIMIT 1
)) AS at
FROM json_each(?1) AS l
