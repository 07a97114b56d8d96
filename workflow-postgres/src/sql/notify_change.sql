-- Called by: hints.rs, in a transaction of its own, and nowhere else: the transaction becomes one that does not wait for the disk.
-- Guarantees: $1 is the channel, $2 says whose hint it is, for its own listener to pass it over. Delivered at the commit, which
-- costs no sync: a hint need not outlive a crash.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
