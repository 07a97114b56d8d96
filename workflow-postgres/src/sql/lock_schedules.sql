-- Called by: schedule.rs, first of all in the transaction that changes these schedules.
-- Guarantees: locks the schedules in the order of their names and returns the revision of each that
-- exists, which holds until the commit.
SELECT s.name, s.revision
FROM {schema}.workflow_schedules AS s
WHERE s.name = ANY($1)
ORDER BY s.name
FOR NO KEY UPDATE
