-- Called by: lanes.rs, outside of every transaction, with gates that may be new: queues and gates,
-- in their order.
-- Guarantees: each gate has a row. A gate that exists takes no number.
INSERT INTO {schema}.workflow_gates (queue, gate)
SELECT DISTINCT new.queue, new.gate
FROM unnest($1::text[], $2::text[]) AS new(queue, gate)
WHERE NOT EXISTS (SELECT FROM {schema}.workflow_gates AS g WHERE g.queue = new.queue AND g.gate = new.gate)
ORDER BY new.queue, new.gate
ON CONFLICT DO NOTHING
