-- Called by: placement.rs, inside the write transaction.
-- Guarantees: returns those of these runs that exist, with their lanes.
SELECT r.id, r.status, r.epoch, r.rank, l.queue, l.workflow_name, l.version, l.gate
FROM json_each(?1) AS c CROSS JOIN workflow_runs AS r ON r.id = c.value
CROSS JOIN workflow_lanes AS l ON l.id = r.lane_id
