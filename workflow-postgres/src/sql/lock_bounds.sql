-- Called by: room.rs, before the waiting runs of bounded queues are counted. $1 are queues, in the
-- order of their names.
-- Guarantees: until this transaction ends, no other batch starts runs in these queues. Waits for
-- batches that start some now, queue by queue. The locks are none on rows, so claims go on.
SELECT pg_advisory_xact_lock(hashtext('{schema}' || chr(2) || 'queues'), hashtext(asked.queue))
FROM unnest($1::text[]) AS asked(queue)
