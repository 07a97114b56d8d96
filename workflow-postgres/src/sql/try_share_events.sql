-- Called by: event.rs, with the events of the waits that a batch registers.
-- Guarantees: until this transaction ends, no other one emits these events. The statement waits for
-- no transaction. Returns the places, from 1, of the events that are being emitted.
SELECT e.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS e(name, key, place)
WHERE NOT pg_try_advisory_xact_lock_shared(hashtext('{schema}'), hashtext(e.name || chr(1) || e.key))
