-- Called by: read.rs, with pairs of queue and workflow.
-- Guarantees: leaps from version to version in the index of due runs, however many runs wait in each.
WITH RECURSIVE known(queue, workflow) AS (
    SELECT DISTINCT k.queue COLLATE "C", k.workflow COLLATE "C" FROM unnest($2::text[], $3::text[]) AS k(queue, workflow)
), seen(queue, workflow, version) AS (
    SELECT k.queue, k.workflow, (
        SELECT r.version FROM {schema}.workflow_runs AS r
        WHERE r.queue = k.queue AND r.workflow_name = k.workflow
          AND r.status IN ('pending', 'running', 'parked') AND r.paused_at IS NULL
        ORDER BY r.version LIMIT 1)
    FROM known AS k
    UNION ALL
    SELECT s.queue, s.workflow, (
        SELECT r.version FROM {schema}.workflow_runs AS r
        WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version > s.version
          AND r.status IN ('pending', 'running', 'parked') AND r.paused_at IS NULL
        ORDER BY r.version LIMIT 1)
    FROM seen AS s WHERE s.version IS NOT NULL
)
SELECT s.queue, s.workflow AS workflow_name, s.version
FROM seen AS s
WHERE s.version IS NOT NULL AND EXISTS (
    SELECT FROM {schema}.workflow_runs AS r
    WHERE r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= {now}
      AND r.status IN ('pending', 'running', 'parked') AND r.paused_at IS NULL)
