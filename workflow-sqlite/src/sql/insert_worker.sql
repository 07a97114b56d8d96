-- Called by: lease.rs, after the worker's lock file is locked.
-- Guarantees: the worker is recorded. Nothing changes if it was recorded before.
INSERT INTO workflow_workers (id, started_at, lanes, retention) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING
