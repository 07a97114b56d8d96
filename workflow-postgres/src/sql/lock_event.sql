-- Called by: event.rs, before an event is emitted in a transaction of the application.
-- Guarantees: until this transaction ends, no other one registers a wait for the event. Waits for
-- transactions that register one now. The key of the lock has two numbers; those of workers and
-- migrations have one, so they never meet.
SELECT pg_advisory_xact_lock(hashtext('{schema}'), hashtext(e.name || chr(1) || e.key))
FROM (SELECT $1::text AS name, $2::text AS key) AS e
