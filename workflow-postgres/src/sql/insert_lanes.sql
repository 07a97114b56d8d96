-- Called by: lanes.rs, outside of every transaction, with lanes that may be new: queues, workflows
-- and versions, in the order of the lanes.
-- Guarantees: each lane has a row for the runs behind no gate, which every later statement sees.
-- Waits only for other inserts of the same lanes, which are transactions as short as this one. A
-- lane that exists takes no number.
INSERT INTO {schema}.workflow_lanes (queue, workflow_name, version)
SELECT new.queue, new.workflow, new.version
FROM unnest($1::text[], $2::text[], $3::text[]) AS new(queue, workflow, version)
WHERE NOT EXISTS (
    SELECT FROM {schema}.workflow_lanes AS l
    WHERE l.queue = new.queue AND l.workflow_name = new.workflow AND l.version = new.version AND l.gate = ''
)
ON CONFLICT DO NOTHING
