-- Called by: queue.rs. ?1 is a queue, ?2 a number.
-- Guarantees: counts the running runs of the queue by their index, to at most that number. Of the
-- lanes behind gates, which may be many, it reads only those with running runs.
SELECT count(*)
FROM (
    SELECT 1 FROM workflow_lanes AS l CROSS JOIN workflow_runs AS r
    WHERE l.queue = ?1 AND l.id > 0 AND r.lane_id = l.id AND r.status = 'running'
    UNION ALL
    SELECT 1 FROM workflow_runs AS r CROSS JOIN workflow_lanes AS l
    WHERE r.status = 'running' AND r.lane_id < 0 AND l.id = r.lane_id AND l.queue = ?1
    LIMIT +?2
)
