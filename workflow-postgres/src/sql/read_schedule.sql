-- Called by: schedule.rs.
-- Guarantees: returns the row of one schedule, or no row.
SELECT s.name, s.revision, s.available_at, s.input, s.record FROM {schema}.workflow_schedules AS s WHERE s.name = $1
