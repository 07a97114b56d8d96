-- Called by: schedule.rs, with schedules that lock_schedules.sql has locked.
-- Guarantees: none of these schedules exists any more. Their runs stay.
DELETE FROM {schema}.workflow_schedules AS s WHERE s.name = ANY($1)
