-- Called by: statistics.rs.
-- Guarantees: the lines of the steps $3 of version $2 of workflow $1, as far as they have some,
-- by the name of the step.
SELECT s.workflow_name, s.version, s.step, s.lines
FROM {schema}.workflow_source_lines AS s
WHERE s.workflow_name = $1 AND s.version = $2 AND s.step = ANY($3::text[])
ORDER BY s.step
