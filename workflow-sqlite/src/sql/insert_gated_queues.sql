-- Called by: gate.rs. ?1 holds lanes with gates.
-- Guarantees: each of their queues has a record, by which workers know that it has gates.
INSERT INTO workflow_queues (queue)
SELECT DISTINCT value ->> 0 FROM json_each(?1)
WHERE true
ON CONFLICT DO NOTHING
