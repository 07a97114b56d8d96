-- Called by: lease.rs, when a worker ends in good order.
-- Guarantees: the lock is free at once, also behind a pooler that keeps the session.
SELECT pg_advisory_unlock($1)
