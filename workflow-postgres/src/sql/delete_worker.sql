-- Called by: lease.rs, when a worker ends in good order.
-- Guarantees: nobody looks for its lock any more.
DELETE FROM {schema}.workflow_workers WHERE id = $1
