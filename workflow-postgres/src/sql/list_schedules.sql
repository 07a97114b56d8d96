-- Called by: schedule.rs. $1 is the last name of the page before, or empty.
-- Guarantees: returns at most $2 schedules in the order of their names.
SELECT s.name, s.revision, s.available_at, s.input, s.record
FROM {schema}.workflow_schedules AS s
WHERE s.name > $1
ORDER BY s.name
LIMIT $2
