-- Called by: queue.rs. $1 is the queue, $2 its limits as JSON, or NULL to clear them.
-- Guarantees: the queue has a record with these limits of an operator. What a worker has declared
-- stays.
INSERT INTO {schema}.workflow_queues (queue, overridden) VALUES ($1, $2)
ON CONFLICT (queue) DO UPDATE SET overridden = excluded.overridden
