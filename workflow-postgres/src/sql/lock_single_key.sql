-- Called by: single.rs, before a run with a single key is started in a transaction of the
-- application.
-- Guarantees: until this transaction ends, no other one gives a run this key. Waits for a
-- transaction that holds the key now. The lock is one of the kind of lock_event.sql: if a key meets
-- an event by chance, one of the two is tried again.
SELECT pg_advisory_xact_lock(hashtext('{schema}'), hashtext(concat_ws(chr(2), s.workflow, s.key, s.until)))
FROM (SELECT $1::text AS workflow, $2::text AS key, $3::text AS until) AS s
