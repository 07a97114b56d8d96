-- Called by: wait.rs. ?1 is a queue, ?2 and ?3 are numbers.
-- Guarantees: returns at most ?3 running runs of the queue, the smallest ids first, of at most ?2
-- that it finds by their index. Of the lanes behind gates, which may be many, it reads only those
-- with running runs.
SELECT id
FROM (
    SELECT r.id AS id FROM workflow_lanes AS l CROSS JOIN workflow_runs AS r
    WHERE l.queue = ?1 AND l.id > 0 AND r.lane_id = l.id AND r.status = 'running'
    UNION ALL
    SELECT r.id AS id FROM workflow_runs AS r CROSS JOIN workflow_lanes AS l
    WHERE r.status = 'running' AND r.lane_id < 0 AND l.id = r.lane_id AND l.queue = ?1
    LIMIT +?2
)
ORDER BY id
LIMIT +?3
