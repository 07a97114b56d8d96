-- Called by: statistics.rs.
-- Guarantees: the lines of the steps ?3 of version ?2 of workflow ?1, as far as they have some,
-- by the name of the step.
SELECT workflow_name, version, step, lines
FROM workflow_source_lines
WHERE workflow_name = ?1 AND version = ?2 AND step IN (SELECT value FROM json_each(?3))
ORDER BY step
