-- Called by: gate.rs, before a claim counts the runs behind gates. $2-$4 are the lanes, $5 the
-- largest number of gates of each lane.
-- Guarantees: locks gates behind which runs of these lanes may be due until the commit, and returns
-- them in the order of their turns. Leaves out a gate that another transaction has locked, and
-- reads no further than it has to.
SELECT l.queue, l.workflow_name, l.version, l.gate, due.weight, due.used_until, due.open_at, due.given, q.declared, q.overridden
FROM unnest($2::text[], $3::text[], $4::text[]) AS named(queue, workflow, version)
CROSS JOIN LATERAL (
    SELECT l.id FROM {schema}.workflow_lanes AS l
    WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = ''
    LIMIT 1
) AS base
CROSS JOIN LATERAL (
    (
        SELECT t.lane_id, t.open_at, t.given, g.weight, g.used_until
        FROM {schema}.workflow_turns AS t
        CROSS JOIN LATERAL (
            SELECT g.weight, g.used_until FROM {schema}.workflow_gates AS g WHERE g.id = t.gate_id FOR NO KEY UPDATE SKIP LOCKED
        ) AS g
        WHERE t.base_id = base.id AND t.full_until IS NULL AND t.open_at <= {now}
        ORDER BY t.open_at
        LIMIT $5
    ) UNION ALL (
        SELECT t.lane_id, t.open_at, t.given, g.weight, g.used_until
        FROM {schema}.workflow_turns AS t
        CROSS JOIN LATERAL (
            SELECT g.weight, g.used_until FROM {schema}.workflow_gates AS g WHERE g.id = t.gate_id FOR NO KEY UPDATE SKIP LOCKED
        ) AS g
        WHERE t.base_id = base.id AND t.full_until <= {now}
        ORDER BY t.full_until
        LIMIT $5
    )
) AS due
CROSS JOIN LATERAL (
    SELECT l.queue, l.workflow_name, l.version, l.gate FROM {schema}.workflow_lanes AS l WHERE l.id = due.lane_id LIMIT 1
) AS l
LEFT JOIN LATERAL (
    SELECT q.declared, q.overridden FROM {schema}.workflow_queues AS q WHERE q.queue = named.queue LIMIT 1
) AS q ON true
ORDER BY due.open_at
