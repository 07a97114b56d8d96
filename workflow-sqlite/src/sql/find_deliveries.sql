-- Called by: event.rs, with waits that end, each with its place.
-- Guarantees: returns the places of the waits whose event lies in the inbox, and its number.
SELECT e.value ->> 0 AS place, s.seq
FROM json_each(?1) AS e
JOIN workflow_signals AS s ON s.run_id = e.value ->> 1 AND s.key = e.value ->> 2 AND s.consumed_by IS NULL
