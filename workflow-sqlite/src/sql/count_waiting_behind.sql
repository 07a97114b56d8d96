-- Called by: room.rs. ?1 is a queue, ?2 a number, ?3 a gate of the queue.
-- Guarantees: counts the runs that wait behind the gate and have not begun, by the index of due
-- runs and to at most that number. Reads one entry more for each lane behind the gate.
SELECT count(*)
FROM (
    SELECT 1 FROM workflow_gates AS g CROSS JOIN workflow_turns AS t CROSS JOIN workflow_runs AS r
    WHERE g.queue = ?1 AND g.gate = ?3 AND t.gate_id = g.id
      AND r.lane_id = t.lane_id AND r.rank > 0 AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
    LIMIT +?2
)
