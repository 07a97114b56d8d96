-- Called by: lanes.rs, outside of every transaction, after insert_lanes.sql and insert_gates.sql:
-- queues, workflows, versions and gates, in the order of the lanes. $5 is the name of the table of
-- lanes.
-- Guarantees: each has a row with a number below 0, and a turn. A lane that exists takes no number.
WITH new AS MATERIALIZED (
    SELECT named.queue, named.workflow, named.version, named.gate, base.id AS base_id, behind.id AS gate_id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS named(queue, workflow, version, gate)
    CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = ''
        LIMIT 1
    ) AS base
    CROSS JOIN LATERAL (
        SELECT g.id FROM {schema}.workflow_gates AS g WHERE g.queue = named.queue AND g.gate = named.gate LIMIT 1
    ) AS behind
    WHERE NOT EXISTS (
        SELECT FROM {schema}.workflow_lanes AS l
        WHERE l.queue = named.queue AND l.workflow_name = named.workflow AND l.version = named.version AND l.gate = named.gate
    )
), lane AS (
    INSERT INTO {schema}.workflow_lanes (id, queue, workflow_name, version, gate) OVERRIDING SYSTEM VALUE
    SELECT -nextval(pg_get_serial_sequence($5, 'id')), new.queue, new.workflow, new.version, new.gate FROM new
    ON CONFLICT DO NOTHING
    RETURNING id, queue, workflow_name, version, gate
)
INSERT INTO {schema}.workflow_turns (lane_id, base_id, gate_id, open_at)
SELECT lane.id, new.base_id, new.gate_id, {far_future}
FROM lane, new
WHERE new.queue = lane.queue AND new.workflow = lane.workflow_name AND new.version = lane.version AND new.gate = lane.gate
