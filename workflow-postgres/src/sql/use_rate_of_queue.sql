-- Called by: queue.rs, after a claim. $1 is the queue, which this transaction has locked, $2 a
-- time.
-- Guarantees: the rate of the queue is used up until then.
UPDATE {schema}.workflow_queues SET used_until = $2 WHERE queue = $1
