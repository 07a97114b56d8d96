-- Called by: wait.rs. ?1 is a queue, ?2 and ?3 are numbers, ?4 is a gate of the queue.
-- Guarantees: returns at most ?3 running runs behind the gate, the smallest ids first, of at most
-- ?2 that it finds by their index.
SELECT id
FROM (
    SELECT r.id AS id FROM workflow_gates AS g CROSS JOIN workflow_turns AS t CROSS JOIN workflow_runs AS r
    WHERE g.queue = ?1 AND g.gate = ?4 AND t.gate_id = g.id AND r.lane_id = t.lane_id AND r.status = 'running'
    LIMIT +?2
)
ORDER BY id
LIMIT +?3
