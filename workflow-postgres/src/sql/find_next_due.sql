-- Called by: read.rs, by an idle worker. $2-$4 are the lanes.
-- Guarantees: reads one entry of the index of due runs and one of the index of running runs for
-- each lane, however many runs wait in it.
SELECT {now} AS now, (
    SELECT min(first.available_at)
    FROM unnest($2::text[], $3::text[], $4::text[]) AS lane(queue, workflow, version)
    CROSS JOIN LATERAL ((
        SELECT r.available_at
        FROM {schema}.workflow_runs AS r
        WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
              = hashtextextended(lane.workflow, hashtextextended(lane.queue, 0))
          AND hashtextextended(r.version, 0) = hashtextextended(lane.version, 0)
          AND r.queue = lane.queue AND r.workflow_name = lane.workflow AND r.version = lane.version
          AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at, r.id
        LIMIT 1
    ) UNION ALL (
        SELECT r.available_at
        FROM {schema}.workflow_runs AS r
        WHERE hashtextextended(r.workflow_name, hashtextextended(r.queue, 0))
              = hashtextextended(lane.workflow, hashtextextended(lane.queue, 0))
          AND hashtextextended(r.version, 0) = hashtextextended(lane.version, 0)
          AND r.queue = lane.queue AND r.workflow_name = lane.workflow AND r.version = lane.version
          AND r.status = 'running' AND r.paused_at IS NULL
        ORDER BY r.available_at, r.id
        LIMIT 1
    )) AS first
) AS at
