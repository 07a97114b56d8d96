-- Called by: start.rs, in the transaction of starts that found no lane, and lease.rs. ?1 holds the
-- lanes.
-- Guarantees: each lane has a row for the runs behind no gate. One that exists stays as it is.
INSERT INTO workflow_lanes (queue, workflow_name, version)
SELECT DISTINCT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
WHERE true
ON CONFLICT DO NOTHING
