-- Called by: schedule.rs, with schedules that lock_schedules.sql has not found, in the order of
-- their names.
-- Guarantees: returns the names of the inserted schedules. One that another transaction has
-- inserted meanwhile stays as it is.
INSERT INTO {schema}.workflow_schedules (name, revision, available_at, input, record)
SELECT unnest($1::text[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[])
ON CONFLICT DO NOTHING
RETURNING name
