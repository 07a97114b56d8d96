-- Called by: queue.rs. $1 are queues, $2 a number for each.
-- Guarantees: counts the running runs of each queue by their index, to at most its number, in the
-- order of the queues. Of the lanes behind gates, which may be many, it reads only those with
-- running runs.
SELECT (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM (
            SELECT l.id FROM {schema}.workflow_lanes AS l WHERE l.queue = asked.queue AND l.gate = '' OFFSET 0
        ) AS lane
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.workflow_runs AS r
            WHERE r.lane_id = lane.id AND r.status = 'running'
            LIMIT asked.at_most
        ) AS running
        UNION ALL
        SELECT 1
        FROM (
            SELECT r.lane_id FROM {schema}.workflow_runs AS r WHERE r.lane_id < 0 AND r.status = 'running' OFFSET 0
        ) AS running
        CROSS JOIN LATERAL (
            SELECT l.queue FROM {schema}.workflow_lanes AS l WHERE l.id = running.lane_id LIMIT 1
        ) AS lane
        WHERE lane.queue = asked.queue
        LIMIT asked.at_most
    ) AS counted
) AS running
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS asked(queue, at_most, number)
ORDER BY asked.number
