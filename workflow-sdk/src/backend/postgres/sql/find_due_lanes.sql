-- Called by: read.rs, with pairs of queue and workflow.
-- Guarantees: leaps from version to version in the indexes of due and of running runs, in the order of their numbers there, however many
-- runs are in each. Of two versions of one number it may name one alone.
WITH RECURSIVE known(queue, workflow) AS (
    SELECT DISTINCT k.queue COLLATE "C", k.workflow COLLATE "C" FROM unnest($2::text[], $3::text[]) AS k(queue, workflow)
), seen(queue, workflow, version) AS (
    SELECT k.queue, k.workflow, (
        SELECT either.version
        FROM (
            SELECT waiting.version
            FROM (
                SELECT r.version FROM {schema}.workflow_runs AS r
                WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                      = hashtextextended(k.workflow, hashtextextended(k.queue, 0))
                  AND r.queue = k.queue AND r.workflow_name = k.workflow AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                ORDER BY hashtextextended(r.version, 0)
                LIMIT 1
            ) AS waiting
            UNION ALL
            SELECT running.version
            FROM (
                SELECT r.version FROM {schema}.workflow_runs AS r
                WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                      = hashtextextended(k.workflow, hashtextextended(k.queue, 0))
                  AND r.queue = k.queue AND r.workflow_name = k.workflow AND r.status = 'running'
                ORDER BY hashtextextended(r.version, 0)
                LIMIT 1
            ) AS running
        ) AS either
        ORDER BY hashtextextended(either.version, 0)
        LIMIT 1
    )
    FROM known AS k
    UNION ALL
    SELECT s.queue, s.workflow, (
        SELECT either.version
        FROM (
            SELECT waiting.version
            FROM (
                SELECT r.version FROM {schema}.workflow_runs AS r
                WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                      = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
                  AND hashtextextended(r.version, 0) > hashtextextended(s.version, 0)
                  AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
                ORDER BY hashtextextended(r.version, 0)
                LIMIT 1
            ) AS waiting
            UNION ALL
            SELECT running.version
            FROM (
                SELECT r.version FROM {schema}.workflow_runs AS r
                WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                      = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
                  AND hashtextextended(r.version, 0) > hashtextextended(s.version, 0)
                  AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.status = 'running'
                ORDER BY hashtextextended(r.version, 0)
                LIMIT 1
            ) AS running
        ) AS either
        ORDER BY hashtextextended(either.version, 0)
        LIMIT 1
    )
    FROM seen AS s WHERE s.version IS NOT NULL
)
SELECT s.queue, s.workflow AS workflow_name, s.version
FROM seen AS s
WHERE s.version IS NOT NULL AND (EXISTS (
    SELECT FROM {schema}.workflow_runs AS r
    WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0)) = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
      AND hashtextextended(r.version, 0) = hashtextextended(s.version, 0)
      AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= {now}
      AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
) OR EXISTS (
    SELECT FROM {schema}.workflow_runs AS r
    WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0)) = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
      AND hashtextextended(r.version, 0) = hashtextextended(s.version, 0)
      AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= {now}
      AND r.status = 'running' AND r.paused_at IS NULL
))
