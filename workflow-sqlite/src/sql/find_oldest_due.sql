-- Called by: queue.rs. ?1 is a queue, ?2 the time.
-- Guarantees: reads one entry of the index of due runs for each lane of the queue and each rank.
SELECT min(at) AS at
FROM (
    SELECT (
        SELECT r.available_at FROM workflow_runs AS r
        WHERE r.lane_id = l.id AND r.rank = known.rank AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
        ORDER BY r.available_at
        LIMIT 1
    ) AS at
    FROM workflow_lanes AS l
    CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS known
    WHERE l.queue = ?1
)
WHERE at <= ?2
