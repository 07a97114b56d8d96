-- Called by: single.rs, with the single keys of the starts of a batch.
-- Guarantees: see lock_single_key.sql, but the statement waits for no transaction. Returns the
-- places, from 1, of the keys that another transaction holds.
SELECT s.place FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS s(workflow, key, until, place)
WHERE NOT pg_try_advisory_xact_lock(hashtext('{schema}'), hashtext(concat_ws(chr(2), s.workflow, s.key, s.until)))
