-- Called by: queue.rs. ?1 is the queue, ?2 the time, ?3 the reason; both NULL to resume the queue.
-- Guarantees: the queue is paused since then, or not paused. Its limits stay.
INSERT INTO workflow_queues (queue, paused_at, pause_reason) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET paused_at = excluded.paused_at, pause_reason = excluded.pause_reason
