-- Called by: read.rs, for all waits for a result in this process.
-- Guarantees: returns the runs of the list that have ended, each as often as the list has it. The
-- join is a CROSS JOIN because the list has one entry per wait, and IN would sort the list into a
-- table first.
SELECT r.id, r.status, r.output, r.error
FROM json_each(?1) AS asked CROSS JOIN workflow_runs AS r ON r.id = asked.value
WHERE r.status IN ('succeeded', 'failed', 'canceled')
