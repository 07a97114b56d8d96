-- Called by: hints.rs in a transaction of its own, within.rs in the application's. $1 is the channel.
-- Guarantees: without payload, so notifications of one transaction become one; delivered at the commit.
SELECT pg_notify($1, '')
