-- Called by: read.rs.
-- Guarantees: at most $1 lanes without a gate, in the order of their names. Reads no others: those
-- behind gates have numbers below 0.
SELECT lane.queue, lane.workflow_name, lane.version
FROM (
    SELECT l.queue, l.workflow_name, l.version FROM {schema}.workflow_lanes AS l WHERE l.id > 0 ORDER BY l.id LIMIT $1
) AS lane
ORDER BY lane.queue, lane.workflow_name, lane.version
