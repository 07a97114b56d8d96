-- Called by: lanes.rs, outside of every transaction, with the queues of gates.
-- Guarantees: each has a record, by which workers know that it has gates.
INSERT INTO {schema}.workflow_queues (queue)
SELECT DISTINCT new.queue FROM unnest($1::text[]) AS new(queue)
WHERE NOT EXISTS (SELECT FROM {schema}.workflow_queues AS q WHERE q.queue = new.queue)
ORDER BY new.queue
ON CONFLICT DO NOTHING
