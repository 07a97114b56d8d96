-- Called by: read.rs, for the lanes of a worker.
-- Guarantees: returns the earliest time over all lanes at which a run is due or it is time to look
-- at a gate. For each lane it reads one entry of the index of due runs for each rank, one of the
-- index of running runs, and one of each index of turns.
SELECT min(at) AS at
FROM (
    SELECT (
        SELECT available_at FROM workflow_runs AS r
        WHERE r.lane_id = l.id AND r.rank = known.rank AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    ) AS at
    FROM json_each(?1) AS lane CROSS JOIN workflow_lanes AS l
    CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
    WHERE l.queue = lane.value ->> 0 AND l.workflow_name = lane.value ->> 1 AND l.version = lane.value ->> 2 AND l.gate = ''
    UNION ALL
    SELECT (
        SELECT available_at FROM workflow_runs AS r
        WHERE r.lane_id = l.id AND r.status = 'running' AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    )
    FROM json_each(?1) AS lane CROSS JOIN workflow_lanes AS l
    WHERE l.queue = lane.value ->> 0 AND l.workflow_name = lane.value ->> 1 AND l.version = lane.value ->> 2 AND l.gate = ''
    UNION ALL
    SELECT (SELECT t.open_at FROM workflow_turns AS t WHERE t.base_id = l.id AND t.full_until IS NULL ORDER BY t.open_at LIMIT 1)
    FROM json_each(?1) AS lane CROSS JOIN workflow_lanes AS l
    WHERE l.queue = lane.value ->> 0 AND l.workflow_name = lane.value ->> 1 AND l.version = lane.value ->> 2 AND l.gate = ''
    UNION ALL
    SELECT (SELECT t.full_until FROM workflow_turns AS t WHERE t.base_id = l.id AND t.full_until IS NOT NULL ORDER BY t.full_until LIMIT 1)
    FROM json_each(?1) AS lane CROSS JOIN workflow_lanes AS l
    WHERE l.queue = lane.value ->> 0 AND l.workflow_name = lane.value ->> 1 AND l.version = lane.value ->> 2 AND l.gate = ''
)
