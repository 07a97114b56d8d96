-- Called by: gate.rs, for each lane of a claim. ?1-?3 are queue, workflow and version, ?4 is the
-- time, ?5 the largest number.
-- Guarantees: the gates behind which runs of this lane may be due, in the order of their turns.
-- Reads only as many.
SELECT l.queue, l.workflow_name, l.version, l.gate, g.weight, g.used_until, q.declared, q.overridden, due.open_at, due.given
FROM (
    SELECT * FROM (
        SELECT t.lane_id, t.gate_id, t.open_at, t.given
        FROM workflow_lanes AS base CROSS JOIN workflow_turns AS t
        WHERE base.queue = ?1 AND base.workflow_name = ?2 AND base.version = ?3 AND base.gate = ''
          AND t.base_id = base.id AND t.full_until IS NULL AND t.open_at <= ?4
        ORDER BY t.open_at
        LIMIT +?5
    )
    UNION ALL
    SELECT * FROM (
        SELECT t.lane_id, t.gate_id, t.open_at, t.given
        FROM workflow_lanes AS base CROSS JOIN workflow_turns AS t
        WHERE base.queue = ?1 AND base.workflow_name = ?2 AND base.version = ?3 AND base.gate = ''
          AND t.base_id = base.id AND t.full_until <= ?4
        ORDER BY t.full_until
        LIMIT +?5
    )
) AS due CROSS JOIN workflow_lanes AS l CROSS JOIN workflow_gates AS g LEFT JOIN workflow_queues AS q ON q.queue = l.queue
WHERE l.id = due.lane_id AND g.id = due.gate_id
ORDER BY due.open_at
LIMIT +?5
