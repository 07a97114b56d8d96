-- Called by: lease.rs, first on each of its sessions. $1 is the worker's lock key.
-- Guarantees: the lock lives exactly as long as the session. The statement does not wait if an
-- older session of the same worker still holds the lock, because the server takes that session for
-- alive.
SELECT pg_try_advisory_lock($1) AS locked
