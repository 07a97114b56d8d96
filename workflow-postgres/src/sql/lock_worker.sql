-- Called by: lease.rs, first on each of its sessions. $1 is the worker's lock key.
-- Guarantees: the lock lives exactly as long as the session. Does not wait: an older session of the same worker that the
-- server takes for alive holds it still.
SELECT pg_try_advisory_lock($1) AS locked
