-- Called by: queue.rs. ?1 is a queue, ?2 a gate of it.
-- Guarantees: counts the running runs behind the gate by their index. No row for a gate that is not
-- known.
SELECT g.used_until, (
    SELECT count(*) FROM workflow_turns AS t CROSS JOIN workflow_runs AS r
    WHERE t.gate_id = g.id AND r.lane_id = t.lane_id AND r.status = 'running'
) AS running
FROM workflow_gates AS g
WHERE g.queue = ?1 AND g.gate = ?2
