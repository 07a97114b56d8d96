-- Called by: gate.rs. ?1 holds pairs of queue and gate.
-- Guarantees: counts the running runs behind each gate by their index, in the order of the pairs.
SELECT (
    SELECT count(*) FROM workflow_turns AS t CROSS JOIN workflow_runs AS r
    WHERE t.gate_id = g.id AND r.lane_id = t.lane_id AND r.status = 'running'
)
FROM json_each(?1) AS asked LEFT JOIN workflow_gates AS g ON g.queue = asked.value ->> 0 AND g.gate = asked.value ->> 1
