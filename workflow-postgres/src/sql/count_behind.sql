-- Called by: gate.rs. $1 are queues, $2 gates.
-- Guarantees: counts the running runs behind each gate by their index, in the order of the gates.
SELECT (
    SELECT count(*)
    FROM {schema}.workflow_gates AS g
    CROSS JOIN LATERAL (
        SELECT t.lane_id FROM {schema}.workflow_turns AS t WHERE t.gate_id = g.id OFFSET 0
    ) AS behind
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.workflow_runs AS r WHERE r.lane_id = behind.lane_id AND r.status = 'running' OFFSET 0
    ) AS running
    WHERE g.queue = asked.queue AND g.gate = asked.gate
) AS running
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked(queue, gate, number)
ORDER BY asked.number
