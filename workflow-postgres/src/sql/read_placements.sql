-- Called by: placement.rs, with runs that lock_runs.sql has locked.
-- Guarantees: returns those of these runs that exist, with their lanes.
SELECT r.id, r.status, r.epoch, r.rank, l.queue, l.workflow_name, l.version, l.gate
FROM {schema}.workflow_runs AS r
CROSS JOIN LATERAL (
    SELECT lane.queue, lane.workflow_name, lane.version, lane.gate
    FROM {schema}.workflow_lanes AS lane WHERE lane.id = r.lane_id
    LIMIT 1
) AS l
WHERE r.id = ANY ($1::uuid[])
