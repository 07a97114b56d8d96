-- Called by: schedule.rs.
-- Guarantees: returns the row of one schedule, or no row.
SELECT name, revision, available_at, input, record FROM workflow_schedules WHERE name = ?1
