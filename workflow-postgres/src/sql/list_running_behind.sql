-- Called by: wait.rs. $1 is a queue, $2 and $3 are numbers, $4 is a gate of the queue.
-- Guarantees: returns at most $3 running runs behind the gate, the smallest ids first, of at most
-- $2 that it finds by their index.
SELECT running.id
FROM (
    SELECT held.id
    FROM (SELECT g.id FROM {schema}.workflow_gates AS g WHERE g.queue = $1 AND g.gate = $4 OFFSET 0) AS asked
    CROSS JOIN LATERAL (
        SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = asked.id OFFSET 0
    ) AS behind
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.workflow_runs AS r WHERE r.lane_id = behind.lane_id AND r.status = 'running' LIMIT $2
    ) AS held
    LIMIT $2
) AS running
ORDER BY running.id
LIMIT $3
