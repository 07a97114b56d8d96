-- Called by: gate.rs, after insert_gated_lanes.sql and insert_gates.sql. ?1 holds lanes with gates,
-- ?2 is the time at which no run is due.
-- Guarantees: each has a turn. One that exists stays as it is.
INSERT INTO workflow_turns (lane_id, base_id, gate_id, open_at)
SELECT DISTINCT l.id, base.id, g.id, ?2
FROM json_each(?1) AS new CROSS JOIN workflow_lanes AS l CROSS JOIN workflow_lanes AS base CROSS JOIN workflow_gates AS g
WHERE l.queue = new.value ->> 0 AND l.workflow_name = new.value ->> 1 AND l.version = new.value ->> 2 AND l.gate = new.value ->> 3
  AND base.queue = l.queue AND base.workflow_name = l.workflow_name AND base.version = l.version AND base.gate = ''
  AND g.queue = l.queue AND g.gate = l.gate
ON CONFLICT DO NOTHING
