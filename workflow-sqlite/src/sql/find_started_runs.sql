-- Called by: start.rs, for the starts that inserted nothing.
-- Guarantees: returns pairs of place in the list and run. The run has the id, or the workflow and
-- key, of the start. Reads by index only.
SELECT s.key AS place, r.id AS id, r.input AS input, r.generation AS generation
FROM json_each(?1) AS s CROSS JOIN workflow_runs AS r
WHERE r.id = s.value ->> 0
UNION ALL
SELECT s.key, r.id, r.input, r.generation
FROM json_each(?1) AS s CROSS JOIN workflow_runs AS r
WHERE r.workflow_name = s.value ->> 1 AND r.key = s.value ->> 2
