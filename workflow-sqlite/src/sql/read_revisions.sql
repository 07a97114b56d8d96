-- Called by: schedule.rs, in the transaction that changes the schedules. ?1 holds their names.
-- Guarantees: returns the revision of each schedule that exists. It holds until the commit, because
-- the transaction excludes every other writer.
SELECT name, revision FROM workflow_schedules WHERE name IN (SELECT value FROM json_each(?1))
