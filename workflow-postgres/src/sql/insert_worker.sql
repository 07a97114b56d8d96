-- Called by: lease.rs, once it holds the worker's lock.
-- Guarantees: no worker is recorded before its lock is held. A worker that others have forgotten is
-- recorded again.
INSERT INTO {schema}.workflow_workers (id, lock_key, started_at, lanes, retention)
VALUES ($2, $3, {now}, $4, $5) ON CONFLICT DO NOTHING
