-- Called by: queue.rs, after a claim. ?1 is the queue, ?2 a time.
-- Guarantees: the rate of the queue is used up until then.
UPDATE workflow_queues SET used_until = ?2 WHERE queue = ?1
