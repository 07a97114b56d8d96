-- Called by: lease.rs, when a worker ends in good order.
-- Guarantees: other workers stop looking for its lock.
DELETE FROM {schema}.workflow_workers WHERE id = $1
