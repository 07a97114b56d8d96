-- Called by: event.rs, with waits that end, of runs that lock_runs.sql has locked.
-- Guarantees: returns the places, from 1, of the waits whose event lies in the inbox, and its
-- number.
SELECT e.place, s.seq
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS e(run_id, signal, place)
JOIN {schema}.workflow_signals AS s ON s.run_id = e.run_id AND s.key = e.signal AND s.consumed_by IS NULL
