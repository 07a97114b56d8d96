-- Called by: gate.rs, after insert_lanes.sql. ?1 holds lanes with gates.
-- Guarantees: each has a row with a number below 0. One that exists stays as it is.
INSERT INTO workflow_lanes (id, queue, workflow_name, version, gate)
SELECT (SELECT min(0, min(id)) FROM workflow_lanes) - row_number() OVER (), new.queue, new.workflow, new.version, new.gate
FROM (
    SELECT DISTINCT value ->> 0 AS queue, value ->> 1 AS workflow, value ->> 2 AS version, value ->> 3 AS gate
    FROM json_each(?1)
) AS new
WHERE NOT EXISTS (
    SELECT 1 FROM workflow_lanes AS l
    WHERE l.queue = new.queue AND l.workflow_name = new.workflow AND l.version = new.version AND l.gate = new.gate
)
