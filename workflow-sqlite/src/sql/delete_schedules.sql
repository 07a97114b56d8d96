-- Called by: schedule.rs, with schedules whose revisions were compared in this transaction.
-- Guarantees: none of these schedules exists any more. Their runs stay.
DELETE FROM workflow_schedules WHERE name IN (SELECT value FROM json_each(?1))
