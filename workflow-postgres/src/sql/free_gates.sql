-- Called by: gate.rs, when the limits of a queue change. $1 is the queue.
-- Guarantees: the next claim looks again at every gate of the queue. Waits for no claim.
INSERT INTO {schema}.workflow_gate_wakes (lane_id, open_at)
SELECT behind.lane_id, unnest(ARRAY[0, NULL]::bigint[])
FROM (SELECT g.id FROM {schema}.workflow_gates AS g WHERE g.queue = $1 OFFSET 0) AS gate
CROSS JOIN LATERAL (
    SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = gate.id OFFSET 0
) AS behind
