-- Called by: queue.rs. ?1 is the queue, ?2 its limits as JSON.
-- Guarantees: the queue has a record with these declared limits. What an operator has set stays.
INSERT INTO workflow_queues (queue, declared) VALUES (?1, ?2) ON CONFLICT (queue) DO UPDATE SET declared = excluded.declared
