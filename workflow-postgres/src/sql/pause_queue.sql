-- Called by: queue.rs. $2 is the queue, $3 the reason; NULL to resume the queue.
-- Guarantees: the queue is paused since then, or not paused. Its limits stay.
INSERT INTO {schema}.workflow_queues (queue, paused_at, pause_reason) VALUES ($2::text, CASE WHEN $3::text IS NOT NULL THEN {now} END, $3::text)
ON CONFLICT (queue) DO UPDATE SET paused_at = excluded.paused_at, pause_reason = excluded.pause_reason
