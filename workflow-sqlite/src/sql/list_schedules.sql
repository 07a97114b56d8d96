-- Called by: schedule.rs. ?1 is the last name of the page before, or NULL.
-- Guarantees: returns at most ?2 schedules in the order of their names.
SELECT name, revision, available_at, input, record
FROM workflow_schedules
WHERE name > coalesce(?1, '')
ORDER BY name
LIMIT +?2
