-- Called by: read.rs, with pairs of queue and workflow.
-- Guarantees: reads one entry per version of the indexes of due and of running runs, however many
-- runs a version has. The indexes order versions by a hash. Of two versions with one hash it may
-- return only one, and of the smallest hash there is, none.
WITH RECURSIVE seen(queue, workflow, number, version) AS (
    SELECT DISTINCT k.queue COLLATE "C", k.workflow COLLATE "C", '-9223372036854775808'::bigint, NULL::text COLLATE "C"
    FROM unnest($2::text[], $3::text[]) AS k(queue, workflow)
    UNION ALL
    SELECT s.queue, s.workflow, next.number, next.version
    FROM seen AS s
    CROSS JOIN LATERAL (
        SELECT first.number, first.version
        FROM ((
            SELECT hashtextextended(r.version, 0) AS number, r.version
            FROM {schema}.workflow_runs AS r
            WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                  = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
              AND hashtextextended(r.version, 0) > s.number AND r.queue = s.queue AND r.workflow_name = s.workflow
              AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
            ORDER BY hashtextextended(r.version, 0)
            LIMIT 1
        ) UNION ALL (
            SELECT hashtextextended(r.version, 0) AS number, r.version
            FROM {schema}.workflow_runs AS r
            WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
                  = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
              AND hashtextextended(r.version, 0) > s.number AND r.queue = s.queue AND r.workflow_name = s.workflow
              AND r.status = 'running'
            ORDER BY hashtextextended(r.version, 0)
            LIMIT 1
        )) AS first
        ORDER BY first.number
        LIMIT 1
    ) AS next
)
SELECT s.queue, s.workflow AS workflow_name, s.version
FROM seen AS s
WHERE s.version IS NOT NULL AND (EXISTS (
    SELECT FROM {schema}.workflow_runs AS r
    WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0)) = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
      AND hashtextextended(r.version, 0) = s.number
      AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= {now}
      AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
) OR EXISTS (
    SELECT FROM {schema}.workflow_runs AS r
    WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0)) = hashtextextended(s.workflow, hashtextextended(s.queue, 0))
      AND hashtextextended(r.version, 0) = s.number
      AND r.queue = s.queue AND r.workflow_name = s.workflow AND r.version = s.version AND r.available_at <= {now}
      AND r.status = 'running' AND r.paused_at IS NULL
))
