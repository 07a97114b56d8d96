-- Called by: seat.rs, with the lines in which a batch gives seats out, before it locks runs.
-- Guarantees: until this transaction ends, no other one gives seats of these lines out. Waits for
-- transactions that do, in the order of the numbers of the locks. The first number of each is
-- neither that of an event (lock_event.sql) nor that of another schema.
SELECT pg_advisory_xact_lock(hashtext('{schema}' || chr(1) || 'seats'), line.number)
FROM (
    SELECT DISTINCT hashtext(asked.limit_name || chr(1) || asked.key) AS number
    FROM (SELECT unnest($1::text[]) AS limit_name, unnest($2::text[]) AS key) AS asked
    ORDER BY number
) AS line
