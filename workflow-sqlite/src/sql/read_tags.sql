-- Called by: statistics.rs. ?1 has the ids of runs.
-- Guarantees: the tags of those of these runs that exist, by the primary key.
SELECT r.id, r.tags
FROM json_each(?1) AS asked CROSS JOIN workflow_runs AS r ON r.id = asked.value
