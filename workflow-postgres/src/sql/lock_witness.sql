-- Called by: witness.rs, first on each of its sessions. $1 is the worker's lock key.
-- Guarantees: the lock lives exactly as long as the session. It has the worker's key as a pair of
-- numbers, which is another lock than the one that lock_worker.sql takes. The statement does not
-- wait if an older session of the same witness still holds the lock.
SELECT pg_try_advisory_lock(($1::bigint >> 32)::integer, (($1::bigint << 32) >> 32)::integer) AS locked
