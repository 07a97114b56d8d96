-- Called by: within.rs, in the application's transaction, whose durability it leaves alone. $1 is the channel.
-- Guarantees: without payload, so notifications of one transaction become one; delivered at the commit.
SELECT pg_notify($1, '')
