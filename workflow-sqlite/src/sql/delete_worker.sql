-- Called by: lease.rs, for this worker when it closes, and for a dead one before
-- release_claims.sql.
-- Guarantees: the worker is not recorded.
DELETE FROM workflow_workers WHERE id = ?1
