-- Called by: queue.rs. $1 is a queue, $2 a gate of it.
-- Guarantees: counts the running runs behind the gate by their index. No row for a gate that is not
-- known.
SELECT g.used_until, (
    SELECT count(*)
    FROM (SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = g.id OFFSET 0) AS behind
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.workflow_runs AS r WHERE r.lane_id = behind.lane_id AND r.status = 'running' OFFSET 0
    ) AS running
) AS running
FROM {schema}.workflow_gates AS g
WHERE g.queue = $1 AND g.gate = $2
