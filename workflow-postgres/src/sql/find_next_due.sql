-- Called by: read.rs, by an idle worker, on the session of the executor if that rests. $2-$4 are
-- the lanes.
-- Guarantees: for each lane, reads one entry of the index of due runs for each rank, and one of the
-- indexes of running runs and of turns, however many runs and gates the lane has. If a lane has
-- gates, reads the oldest 1,000 wakes of all gates, once. With that many such a lane is due,
-- because later wakes count only after claims have opened the gates of these.
WITH oldest AS MATERIALIZED (
    SELECT woken.base_id, wake.open_at
    FROM (SELECT w.lane_id, w.open_at FROM {schema}.workflow_gate_wakes AS w ORDER BY w.id LIMIT 1000) AS wake
    LEFT JOIN LATERAL (
        SELECT t.base_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = wake.lane_id LIMIT 1
    ) AS woken ON true
)
SELECT {now} AS now, (
    SELECT min(first.available_at)
    FROM unnest($2::text[], $3::text[], $4::text[]) AS named(queue, workflow, version)
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = ''
        LIMIT 1
    ) AS lane
    CROSS JOIN LATERAL (
        SELECT (
            SELECT t.open_at FROM {schema}.workflow_turns AS t
            WHERE t.base_id = lane.id AND t.full_until IS NULL
            ORDER BY t.open_at
            LIMIT 1
        ) AS open_at, (
            SELECT t.full_until FROM {schema}.workflow_turns AS t
            WHERE t.base_id = lane.id AND t.full_until IS NOT NULL
            ORDER BY t.full_until
            LIMIT 1
        ) AS full_until
        OFFSET 0
    ) AS turn
    CROSS JOIN LATERAL ((
        SELECT waiting.available_at
        FROM (SELECT unnest({ranks}) AS number) AS rank
        CROSS JOIN LATERAL (
            SELECT r.available_at
            FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
            ORDER BY r.available_at, r.id
            LIMIT 1
        ) AS waiting
    ) UNION ALL (
        SELECT r.available_at
        FROM {schema}.workflow_runs AS r
        WHERE r.lane_id = lane.id AND r.status = 'running' AND r.paused_at IS NULL
        ORDER BY r.available_at, r.id
        LIMIT 1
    ) UNION ALL (
        SELECT LEAST(turn.open_at, turn.full_until)
    ) UNION ALL (
        SELECT CASE WHEN count(*) < 1000 THEN min(COALESCE(o.open_at, 0)) FILTER (WHERE o.base_id = lane.id) ELSE 0 END
        FROM oldest AS o
        WHERE turn.open_at IS NOT NULL OR turn.full_until IS NOT NULL
    )) AS first
) AS at
