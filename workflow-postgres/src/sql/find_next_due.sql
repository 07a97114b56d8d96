-- Called by: read.rs, by an idle worker. $2-$4 are the lanes.
-- Guarantees: reads one entry of the index of due runs for each rank of each lane, and one of the
-- indexes of running runs and of turns for each lane, however many runs and gates it has.
SELECT {now} AS now, (
    SELECT min(first.available_at)
    FROM unnest($2::text[], $3::text[], $4::text[]) AS named(queue, workflow, version)
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = ''
        LIMIT 1
    ) AS lane
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
        SELECT t.open_at FROM {schema}.workflow_turns AS t
        WHERE t.base_id = lane.id AND t.full_until IS NULL
        ORDER BY t.open_at
        LIMIT 1
    ) UNION ALL (
        SELECT t.full_until FROM {schema}.workflow_turns AS t
        WHERE t.base_id = lane.id AND t.full_until IS NOT NULL
        ORDER BY t.full_until
        LIMIT 1
    ) UNION ALL (
        SELECT COALESCE(w.open_at, 0)
        FROM {schema}.workflow_gate_wakes AS w
        CROSS JOIN LATERAL (
            SELECT t.base_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = w.lane_id LIMIT 1
        ) AS woken
        WHERE woken.base_id = lane.id
        ORDER BY w.id
        LIMIT 1
    )) AS first
) AS at
