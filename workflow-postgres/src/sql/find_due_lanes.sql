-- Called by: read.rs, with pairs of queue and workflow.
-- Guarantees: reads at most one entry of the index of due runs for each rank of each version of
-- these workflows, and one of the index of running runs for each version, however many runs it has,
-- and the gates at which it is time to look. If a lane has gates, reads the oldest 1,000 wakes of
-- all gates, once. With that many, a lane may have later ones, so it looks at up to 1,000 more of
-- its gates, those that sleep longest first. For a lane without gates, EXISTS and CASE leave the
-- wakes unread.
WITH oldest AS MATERIALIZED (
    SELECT wake.lane_id, wake.open_at, woken.base_id
    FROM (SELECT w.lane_id, w.open_at FROM {schema}.workflow_gate_wakes AS w ORDER BY w.id LIMIT 1000) AS wake
    LEFT JOIN LATERAL (
        SELECT t.base_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = wake.lane_id LIMIT 1
    ) AS woken ON true
)
SELECT lane.queue, lane.workflow_name, lane.version
FROM (SELECT DISTINCT named.queue, named.workflow FROM unnest($2::text[], $3::text[]) AS named(queue, workflow)) AS known
CROSS JOIN LATERAL (
    SELECT l.id, l.queue, l.workflow_name, l.version
    FROM {schema}.workflow_lanes AS l
    WHERE l.queue = known.queue AND l.workflow_name = known.workflow AND l.gate = ''
    OFFSET 0
) AS lane
WHERE (
    SELECT min(waiting.available_at)
    FROM (SELECT unnest({ranks}) AS number) AS rank
    CROSS JOIN LATERAL (
        SELECT r.available_at
        FROM {schema}.workflow_runs AS r
        WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at, r.id
        LIMIT 1
    ) AS waiting
) <= {now} OR (
    SELECT r.available_at
    FROM {schema}.workflow_runs AS r
    WHERE r.lane_id = lane.id AND r.status = 'running' AND r.paused_at IS NULL
    ORDER BY r.available_at, r.id
    LIMIT 1
) <= {now}
OR EXISTS (
    SELECT FROM (
        SELECT t.lane_id FROM {schema}.workflow_turns AS t
        WHERE t.base_id = lane.id AND t.full_until IS NULL AND t.open_at <= {now}
        UNION ALL
        SELECT o.lane_id
        FROM oldest AS o
        WHERE o.base_id = lane.id AND o.open_at <= {now} AND (
            EXISTS (SELECT FROM {schema}.workflow_turns AS t WHERE t.base_id = lane.id AND t.full_until IS NULL)
            OR EXISTS (SELECT FROM {schema}.workflow_turns AS t WHERE t.base_id = lane.id AND t.full_until IS NOT NULL)
        )
        UNION ALL (
            SELECT t.lane_id
            FROM {schema}.workflow_turns AS t
            WHERE t.base_id = lane.id AND t.full_until IS NULL
              AND CASE WHEN t.lane_id < 0 THEN (SELECT count(*) FROM oldest) >= 1000 END
            ORDER BY t.open_at DESC
            LIMIT 1000
        )
    ) AS gated
    CROSS JOIN LATERAL (
        SELECT first.id
        FROM (SELECT unnest({ranks}) AS number) AS rank
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = gated.lane_id AND r.rank = rank.number AND r.status IN ('pending', 'parked')
              AND r.paused_at IS NULL AND r.available_at <= {now}
            LIMIT 1
        ) AS first
        LIMIT 1
    ) AS waiting
)
