-- Called by: wait.rs. $1 is a queue, $2 and $3 are numbers.
-- Guarantees: returns at most $3 running runs of the queue, the smallest ids first, of at most $2
-- that it finds by their index. Of the lanes behind gates, which may be many, it reads only those
-- with running runs.
SELECT running.id
FROM (
    SELECT held.id
    FROM (SELECT l.id FROM {schema}.workflow_lanes AS l WHERE l.queue = $1 AND l.gate = '' OFFSET 0) AS lane
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.workflow_runs AS r WHERE r.lane_id = lane.id AND r.status = 'running' LIMIT $2
    ) AS held
    UNION ALL
    SELECT held.id
    FROM (
        SELECT r.id, r.lane_id FROM {schema}.workflow_runs AS r WHERE r.lane_id < 0 AND r.status = 'running' OFFSET 0
    ) AS held
    CROSS JOIN LATERAL (SELECT l.queue FROM {schema}.workflow_lanes AS l WHERE l.id = held.lane_id LIMIT 1) AS lane
    WHERE lane.queue = $1
    LIMIT $2
) AS running
ORDER BY running.id
LIMIT $3
