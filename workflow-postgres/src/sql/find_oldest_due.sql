-- Called by: queue.rs. $2 is a queue.
-- Guarantees: reads one entry of the index of due runs for each lane of the queue and each rank.
SELECT min(waiting.available_at) AS at
FROM (SELECT l.id FROM {schema}.workflow_lanes AS l WHERE l.queue = $2 OFFSET 0) AS lane
CROSS JOIN (SELECT unnest({ranks}) AS number) AS rank
CROSS JOIN LATERAL (
    SELECT r.available_at
    FROM {schema}.workflow_runs AS r
    WHERE r.lane_id = lane.id AND r.rank = rank.number AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
    ORDER BY r.available_at, r.id
    LIMIT 1
) AS waiting
WHERE waiting.available_at <= {now}
