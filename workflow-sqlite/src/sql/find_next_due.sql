-- Called by: read.rs, for the lanes of a worker.
-- Guarantees: returns the earliest due time over all lanes. Per lane it reads one entry of the
-- index of due runs and one of the index of running runs.
SELECT min(at) AS at
FROM (
    SELECT (
        SELECT available_at FROM workflow_runs AS r
        WHERE r.queue = l.value ->> 0 AND r.workflow_name = l.value ->> 1 AND r.version = l.value ->> 2
          AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    ) AS at
    FROM json_each(?1) AS l
    UNION ALL
    SELECT (
        SELECT available_at FROM workflow_runs AS r
        WHERE r.queue = l.value ->> 0 AND r.workflow_name = l.value ->> 1 AND r.version = l.value ->> 2
          AND r.status = 'running' AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    )
    FROM json_each(?1) AS l
)
