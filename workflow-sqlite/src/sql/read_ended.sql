-- Called by: read.rs, for everybody in this process who waits for a result.
-- Guarantees: those of the runs that have ended, each as often as it is in the list. CROSS JOIN: the list has a run for each wait, and IN
-- would sort it into a table first.
SELECT r.id, r.status, r.output, r.error
FROM json_each(?1) AS asked CROSS JOIN workflow_runs AS r ON r.id = asked.value
WHERE r.status IN ('succeeded', 'failed', 'canceled')
