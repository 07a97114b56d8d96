-- Called by: read.rs, for waits for a result and for parents of these runs.
-- Guarantees: returns the ids of the list that no run has, each as often as the list has it.
SELECT asked.value AS id
FROM json_each(?1) AS asked
WHERE NOT EXISTS (SELECT 1 FROM workflow_runs AS r WHERE r.id = asked.value)
