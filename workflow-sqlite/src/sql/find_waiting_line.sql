-- Called by: seat.rs. ?1 and ?2 are the limit and the key of a line.
-- Guarantees: the next line in which a step waits, by one look into the index.
SELECT limit_name, key FROM workflow_seats
WHERE epoch IS NULL AND (limit_name, key) > (?1, ?2)
ORDER BY limit_name, key
LIMIT 1
