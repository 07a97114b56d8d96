-- Called by: hints.rs only, in a transaction of its own, because the transaction does not wait for
-- the disk. $1 is the channel, $2 is the origin of the hint, so that its own listener skips it.
-- Guarantees: the hint is delivered at the commit, which costs no sync: a hint need not outlive a
-- crash.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
