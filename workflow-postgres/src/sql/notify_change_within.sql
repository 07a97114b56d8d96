-- Called by: within.rs, in the application's transaction, whose durability it does not change. $1
-- is the channel.
-- Guarantees: the hint is delivered at the commit. It has no payload, so several of one transaction
-- become one.
SELECT pg_notify($1, '')
