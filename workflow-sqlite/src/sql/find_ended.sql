-- Called by: statistics.rs, in a batch that has ended these runs without their workers.
-- Guarantees: how many of the runs ?1 have failed and were canceled in each lane. Changes nothing.
SELECT l.queue, l.workflow_name, l.version, sum(r.status = 'failed') AS failed, sum(r.status = 'canceled') AS canceled,
       max(r.id) AS id, max(r.completed_at) AS ended_at
FROM workflow_runs AS r
JOIN workflow_lanes AS l ON l.id = r.lane_id
WHERE r.id IN (SELECT value FROM json_each(?1))
GROUP BY l.queue, l.workflow_name, l.version
