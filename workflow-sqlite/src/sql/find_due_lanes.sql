-- Called by: workers.rs. ?1 holds pairs of queue and workflow, ?2 is the time.
-- Guarantees: jumps from version to version in the indexes of due and of running runs, however many
-- runs each version has.
WITH RECURSIVE seen(queue, workflow, version) AS (
    SELECT DISTINCT value ->> 0, value ->> 1, '' FROM json_each(?1)
    UNION ALL
    SELECT s.queue, s.workflow, (
        SELECT min(version) FROM (
            SELECT (
                SELECT r.version FROM workflow_runs AS r
                WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version > s.version
                  AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                ORDER BY r.version LIMIT 1
            ) AS version
            UNION ALL
            SELECT (
                SELECT r.version FROM workflow_runs AS r
                WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version > s.version AND r.status = 'running'
                ORDER BY r.version LIMIT 1)
        ))
    FROM seen AS s WHERE s.version IS NOT NULL
)
SELECT s.queue, s.workflow AS workflow_name, s.version
FROM seen AS s
WHERE EXISTS (
    SELECT 1 FROM workflow_runs AS r
    WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= ?2
      AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
) OR EXISTS (
    SELECT 1 FROM workflow_runs AS r
    WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= ?2
      AND r.status = 'running' AND r.paused_at IS NULL
)
