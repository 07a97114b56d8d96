-- Called by: wait.rs. $1 is a queue.
-- Guarantees: true if a run was ever started in the queue. Reads one entry of the index of lanes.
SELECT EXISTS (SELECT FROM {schema}.workflow_lanes AS l WHERE l.queue = $1) AS is_known
