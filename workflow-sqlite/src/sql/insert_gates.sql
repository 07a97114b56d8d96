-- Called by: gate.rs. ?1 holds lanes with gates.
-- Guarantees: each gate has a row. One that exists stays as it is.
INSERT INTO workflow_gates (queue, gate)
SELECT DISTINCT value ->> 0, value ->> 3 FROM json_each(?1)
WHERE true
ON CONFLICT DO NOTHING
