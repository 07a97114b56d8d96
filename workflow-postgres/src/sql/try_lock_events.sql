-- Called by: event.rs, with the events that a batch emits.
-- Guarantees: see lock_event.sql, but the statement waits for no transaction. Returns the places,
-- from 1, of the events that another transaction holds.
SELECT e.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS e(name, key, place)
WHERE NOT pg_try_advisory_xact_lock(hashtext('{schema}'), hashtext(e.name || chr(1) || e.key))
