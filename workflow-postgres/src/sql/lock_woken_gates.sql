-- Called by: gate.rs, before a claim looks for gates.
-- Guarantees: locks the gates of the oldest wakes until the commit and returns them, each once.
-- Leaves out a gate that another claim has locked: that one may be about to say when it is looked
-- at again.
SELECT g.id
FROM {schema}.workflow_gates AS g
WHERE g.id = ANY (ARRAY(
    SELECT turn.gate_id
    FROM (SELECT w.lane_id FROM {schema}.workflow_gate_wakes AS w ORDER BY w.id LIMIT 1000) AS woken
    CROSS JOIN LATERAL (
        SELECT t.gate_id FROM {schema}.workflow_turns AS t WHERE t.lane_id = woken.lane_id LIMIT 1
    ) AS turn
))
FOR NO KEY UPDATE SKIP LOCKED
