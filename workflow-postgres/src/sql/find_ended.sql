-- Called by: statistics.rs, in a batch that has ended these runs without their workers.
-- Guarantees: how many of the runs $1 have failed and were canceled in each lane. Changes nothing.
SELECT l.queue, l.workflow_name, l.version, count(*) FILTER (WHERE r.status = 'failed') AS failed,
       count(*) FILTER (WHERE r.status = 'canceled') AS canceled, (array_agg(r.id ORDER BY r.id DESC))[1] AS id,
       max(r.completed_at) AS ended_at
FROM {schema}.workflow_runs AS r
JOIN {schema}.workflow_lanes AS l ON l.id = r.lane_id
WHERE r.id = ANY ($1::uuid[])
GROUP BY l.queue, l.workflow_name, l.version
