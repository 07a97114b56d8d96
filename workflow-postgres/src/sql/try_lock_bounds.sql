-- Called by: room.rs, where the batch holds runs already. $1 are queues.
-- Guarantees: see lock_bounds.sql, but the statement waits for no transaction. Returns the queues
-- in which another batch starts runs now.
SELECT asked.queue
FROM unnest($1::text[]) AS asked(queue)
WHERE NOT pg_try_advisory_xact_lock(hashtext('{schema}' || chr(2) || 'queues'), hashtext(asked.queue))
